package scheduleremu_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"

	"github.com/sluice-dev/sluice/localstack/cloud/scheduleremu"
)

// restart saves and closes the bundle's server, lets time pass, and loads and
// resumes another one.
func (b *bundle) restart(t *testing.T, pause time.Duration, options scheduleremu.Options) *bundle {
	t.Helper()
	var file bytes.Buffer
	if err := b.server.Save(&file); err != nil {
		t.Fatal(err)
	}
	b.server.Close()
	time.Sleep(pause)
	again := setup(options)
	t.Cleanup(again.server.Close)
	if err := again.server.Load(&file); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Hour)
	if n := len(again.fired.all()); n > 0 {
		t.Errorf("%d schedules fired before Resume", n)
	}
	again.server.Resume()
	return again
}

func (b *bundle) names() (names []string) {
	for _, f := range b.fired.all() {
		names = append(names, f.Name)
	}
	slices.Sort(names)
	return names
}

func TestSavedSchedulesGoOnWhereTheyWere(t *testing.T) {
	t.Parallel()
	bubble(t, scheduleremu.Options{}, func(t *testing.T, b *bundle) {
		if _, err := b.CreateScheduleGroup(t.Context(), &scheduler.CreateScheduleGroupInput{Name: aws.String("naps")}); err != nil {
			t.Fatal(err)
		}
		inGroup := func(in *scheduler.CreateScheduleInput) { in.GroupName = aws.String("naps") }
		b.create(t, "done", b.at(time.Minute), inGroup)
		b.create(t, "overdue", b.at(2*time.Hour), inGroup)
		b.create(t, "later", b.at(48*time.Hour), inGroup)
		b.create(t, "often", "rate(1 minutes)")
		time.Sleep(time.Hour + time.Second)
		if n := len(b.fired.all()); n != 61+1 {
			t.Errorf("%d fired in the first hour", n)
		}

		after := b.restart(t, 24*time.Hour, scheduleremu.Options{})
		synctest.Wait()
		if got, want := after.names(), []string{"often", "overdue"}; !slices.Equal(got, want) {
			t.Errorf("%q fired at once, want %q: once for all the times that were missed", got, want)
		}
		time.Sleep(10*time.Minute - 30*time.Second)
		if n := len(after.fired.all()); n != 2+9 {
			t.Errorf("%d fired within ten minutes, want 11", n)
		}
		time.Sleep(23 * time.Hour)
		if !slices.Contains(after.names(), "later") {
			t.Error("the far one never fired")
		}
		left, err := after.ListSchedules(t.Context(), &scheduler.ListSchedulesInput{})
		if err != nil || len(left.Schedules) != 1 || *left.Schedules[0].Name != "often" {
			t.Errorf("left are %v, %v", left, err)
		}
	})
}

func TestAnInvocationUnderWayIsMadeAgainAfterARestart(t *testing.T) {
	t.Parallel()
	failing := scheduleremu.Options{
		OnFire:     func(context.Context, scheduleremu.Fire) error { return errors.New("down") },
		RetryDelay: func(int) time.Duration { return time.Hour },
	}
	bubble(t, failing, func(t *testing.T, b *bundle) {
		b.create(t, "nap", b.at(time.Minute))
		time.Sleep(2 * time.Minute)
		after := b.restart(t, 0, scheduleremu.Options{})
		synctest.Wait()
		fired := after.fired.all()
		if len(fired) != 1 || fired[0].Input != `{"task_id":"nap"}` || !fired[0].Scheduled.Equal(b.start.Add(time.Minute)) {
			t.Errorf("fired: %v", fired)
		}
		if _, err := after.tryGet(t, "nap"); err == nil {
			t.Error("the schedule is left behind")
		}
	})
}

func TestLatenessSurvivesARestart(t *testing.T) {
	t.Parallel()
	bubble(t, scheduleremu.Options{Lateness: func() time.Duration { return 10 * time.Hour }}, func(t *testing.T, b *bundle) {
		b.create(t, "nap", b.at(time.Minute))
		after := b.restart(t, 0, scheduleremu.Options{})
		time.Sleep(8 * time.Hour)
		if n := len(after.fired.all()); n != 0 {
			t.Errorf("%d fired too early", n)
		}
		time.Sleep(2 * time.Hour)
		if n := len(after.fired.all()); n != 1 {
			t.Errorf("%d fired, want 1", n)
		}
	})
}

func TestLoadRefusesWhatIsDamaged(t *testing.T) {
	t.Parallel()
	bubble(t, scheduleremu.Options{}, func(t *testing.T, b *bundle) {
		b.create(t, "nap", b.at(time.Minute))
		for _, damaged := range []string{"", "[", "{}", `[{"Name":"default","Schedules":[{"Name":"x"}]}]`} {
			if err := b.server.Load(strings.NewReader(damaged)); err == nil {
				t.Errorf("%q was loaded", damaged)
			}
		}
		time.Sleep(time.Hour)
		if got := b.names(); len(got) != 1 {
			t.Errorf("after a load that failed %q fired", got)
		}
	})
}
