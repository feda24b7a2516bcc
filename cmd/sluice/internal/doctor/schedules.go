package doctor

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/google/uuid"

	"github.com/sluice-dev/sluice/shared/awserr"
	"github.com/sluice-dev/sluice/shared/wakeup"
)

// checkGroup asks for the group of wake-ups.
func (e *examination) checkGroup(ctx context.Context) Finding {
	if e.ScheduleGroup == "" {
		e.ScheduleGroup = e.wakeups.Group
	}
	if e.ScheduleGroup == "" {
		return notChecked(unknown)
	}
	_, err := e.schedules.GetScheduleGroup(ctx, &scheduler.GetScheduleGroupInput{Name: &e.ScheduleGroup})
	switch {
	case awserr.IsNotFound(err):
		return failed(redeploy, "%s does not exist: no task can sleep", e.ScheduleGroup)
	case err != nil:
		return e.unable(err, "scheduler:GetScheduleGroup", redeploy)
	}
	return ok("%s", e.ScheduleGroup)
}

// checkSchedules arms a wake-up as the claim function would, far ahead, and deletes it.
func (e *examination) checkSchedules(ctx context.Context) Finding {
	if e.wakeups.Group == "" || e.wakeups.RoleARN == "" || e.wakeups.TargetARN == "" {
		return notChecked("group, role and target of wake-ups are not known: %s", unknown)
	}
	id, now := "doctor-"+uuid.NewString(), time.Now()
	second, err := wakeup.New(e.schedules, e.wakeups).Arm(ctx, id, now.Add(wakeup.MaxLeg), now, 0)
	if err != nil {
		return e.unable(err, "scheduler:CreateSchedule and iam:PassRole", redeploy)
	}
	name := wakeup.Name(id, second)
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), Patience)
	defer cancel()
	_, err = e.schedules.DeleteSchedule(undo, &scheduler.DeleteScheduleInput{Name: &name, GroupName: &e.wakeups.Group})
	if err != nil && !awserr.IsNotFound(err) {
		return failed("aws scheduler delete-schedule --group-name "+e.wakeups.Group+" --name "+name,
			"a wake-up was armed, and could not be deleted again: %s", e.words(err))
	}
	return ok("a wake-up was armed and deleted again in %s", e.wakeups.Group)
}
