package scheduleremu_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/scheduler/types"

	"github.com/sluice-dev/sluice/localstack/cloud/scheduleremu"
)

// What CreateSchedule refuses. The clock says 2000-01-01T00:00:00Z.
func TestCreateRefusals(t *testing.T) {
	t.Parallel()
	type in = scheduler.CreateScheduleInput
	for _, c := range []struct {
		name   string
		change func(*in)
		want   string
	}{
		{"nothing wrong", func(*in) {}, "ok"},
		{"a name of 64 characters", func(i *in) { i.Name = aws.String(strings.Repeat("a", 64)) }, "ok"},
		{"a name of 65 characters", func(i *in) { i.Name = aws.String(strings.Repeat("a", 65)) }, "400 ValidationException"},
		{"all characters of names", func(i *in) { i.Name = aws.String("aZ0-_.") }, "ok"},
		{"a space in the name", func(i *in) { i.Name = aws.String("a b") }, "400 ValidationException"},
		{"a slash in the name", func(i *in) { i.Name = aws.String("a/b") }, "400 ValidationException"},
		{"at in the past", func(i *in) { i.ScheduleExpression = aws.String("at(1999-12-31T23:59:59)") }, "400 ValidationException"},
		{"at now", func(i *in) { i.ScheduleExpression = aws.String("at(2000-01-01T00:00:00)") }, "400 ValidationException"},
		{"at the next second", func(i *in) { i.ScheduleExpression = aws.String("at(2000-01-01T00:00:01)") }, "ok"},
		{"at in the year 9999", func(i *in) { i.ScheduleExpression = aws.String("at(9999-12-31T23:59:59)") }, "ok"},
		{"at with a fraction", func(i *in) { i.ScheduleExpression = aws.String("at(2000-01-01T00:00:01.5)") }, "400 ValidationException"},
		{"at with a zone", func(i *in) { i.ScheduleExpression = aws.String("at(2000-01-01T00:00:01Z)") }, "400 ValidationException"},
		{"at on a day that is none", func(i *in) { i.ScheduleExpression = aws.String("at(2000-02-30T00:00:01)") }, "400 ValidationException"},
		{"at that is past in its zone", func(i *in) {
			i.ScheduleExpression, i.ScheduleExpressionTimezone = aws.String("at(2000-01-01T00:30:00)"), aws.String("Europe/Paris")
		}, "400 ValidationException"},
		{"at that is to come in its zone", func(i *in) {
			i.ScheduleExpression, i.ScheduleExpressionTimezone = aws.String("at(1999-12-31T20:00:00)"), aws.String("America/New_York")
		}, "ok"},
		{"an unknown zone", func(i *in) { i.ScheduleExpressionTimezone = aws.String("Europe/Atlantis") }, "400 ValidationException"},
		{"the machine's zone", func(i *in) { i.ScheduleExpressionTimezone = aws.String("Local") }, "400 ValidationException"},
		{"no expression at all", func(i *in) { i.ScheduleExpression = aws.String("tomorrow") }, "400 ValidationException"},
		{"a rate of zero", func(i *in) { i.ScheduleExpression = aws.String("rate(0 minutes)") }, "400 ValidationException"},
		{"a rate in seconds", func(i *in) { i.ScheduleExpression = aws.String("rate(5 seconds)") }, "400 ValidationException"},
		{"cron with five fields", func(i *in) { i.ScheduleExpression = aws.String("cron(0 0 * * ?)") }, "400 ValidationException"},
		{"cron with both day fields", func(i *in) { i.ScheduleExpression = aws.String("cron(0 0 * * * *)") }, "400 ValidationException"},
		{"an unknown group", func(i *in) { i.GroupName = aws.String("none") }, "404 ResourceNotFoundException"},
		{"a window without minutes", func(i *in) { i.FlexibleTimeWindow.Mode = types.FlexibleTimeWindowModeFlexible }, "400 ValidationException"},
		{"minutes without a window", func(i *in) { i.FlexibleTimeWindow.MaximumWindowInMinutes = aws.Int32(5) }, "400 ValidationException"},
		{"a role that is none", func(i *in) { i.Target.RoleArn = aws.String("arn:aws:iam::1:user/x") }, "400 ValidationException"},
		{"a target that is no ARN", func(i *in) { i.Target.Arn = aws.String("claim") }, "400 ValidationException"},
		{"186 retries", func(i *in) { i.Target.RetryPolicy = &types.RetryPolicy{MaximumRetryAttempts: aws.Int32(186)} }, "400 ValidationException"},
		{"an event age of 59 s", func(i *in) { i.Target.RetryPolicy = &types.RetryPolicy{MaximumEventAgeInSeconds: aws.Int32(59)} }, "400 ValidationException"},
		{"a FIFO dead-letter queue", func(i *in) { i.Target.DeadLetterConfig = &types.DeadLetterConfig{Arn: aws.String(queue + ".fifo")} }, "400 ValidationException"},
		{"an odd client token", func(i *in) { i.ClientToken = aws.String("a.b") }, "400 ValidationException"},
		{"an unknown state", func(i *in) { i.State = "PAUSED" }, "400 ValidationException"},
		{"an unknown action", func(i *in) { i.ActionAfterCompletion = "KEEP" }, "400 ValidationException"},
		{"an end before the start", func(i *in) {
			i.ScheduleExpression = aws.String("rate(1 hour)")
			i.StartDate, i.EndDate = aws.Time(time.Unix(2e9, 0)), aws.Time(time.Unix(1e9, 0))
		}, "400 ValidationException"},
		{"an end in the past", func(i *in) {
			i.ScheduleExpression, i.EndDate = aws.String("rate(1 hour)"), aws.Time(time.Unix(1, 0))
		}, "400 ValidationException"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			bubble(t, scheduleremu.Options{}, func(t *testing.T, b *bundle) {
				expect(t, "CreateSchedule", b.tryCreate(t, "one", b.at(time.Hour), c.change), c.want)
			})
		})
	}
}

// What the SDK itself would not send.
func TestCreateRefusesWhatIsMissing(t *testing.T) {
	t.Parallel()
	bubble(t, scheduleremu.Options{}, func(t *testing.T, b *bundle) {
		const target = `"Target":{"Arn":"` + function + `","RoleArn":"` + role + `"}`
		const window = `"FlexibleTimeWindow":{"Mode":"OFF"}`
		const expression = `"ScheduleExpression":"rate(1 hour)"`
		for _, c := range []struct {
			body   string
			status int
			answer string
		}{
			{`{` + expression + `,` + target + `}`, 400, "flexibleTimeWindow"},
			{`{` + expression + `,` + target + `,"FlexibleTimeWindow":{}}`, 400, "flexibleTimeWindow.mode"},
			{`{` + expression + `,` + window + `}`, 400, "target"},
			{`{` + window + `,` + target + `}`, 400, "scheduleExpression"},
			{`{` + expression + `,` + window + `,"Target":{"Arn":"` + function + `"}}`, 400, "roleArn"},
			{`{"ScheduleExpression":7}`, 400, ""},
			{`not JSON`, 400, ""},
			{`{` + expression + `,` + window + `,` + target + `,"Unknown":1}`, 200, "ScheduleArn"},
		} {
			status, answer := b.send("POST", "/schedules/one", c.body)
			if status != c.status || !strings.Contains(answer, c.answer) {
				t.Errorf("%s: %d %s; want %d %s", c.body, status, answer, c.status, c.answer)
			}
		}
		if status, _ := b.send("PATCH", "/schedules/one", ""); status != 404 {
			t.Errorf("an unknown operation: %d", status)
		}
	})
}

// Everything given at create is given back, with the defaults of the rest.
func TestGetGivesBackWhatWasCreated(t *testing.T) {
	t.Parallel()
	bubble(t, scheduleremu.Options{}, func(t *testing.T, b *bundle) {
		b.create(t, "full", "rate(2 hours)", func(in *scheduler.CreateScheduleInput) {
			in.Description, in.ScheduleExpressionTimezone = aws.String("ü"), aws.String("Europe/Paris")
			in.StartDate, in.EndDate = aws.Time(b.start.Add(1500*time.Millisecond)), aws.Time(b.start.Add(time.Hour))
			in.Target.DeadLetterConfig = &types.DeadLetterConfig{Arn: aws.String(queue)}
			in.Target.SqsParameters = &types.SqsParameters{MessageGroupId: aws.String("g")}
		})
		out, err := b.tryGet(t, "full")
		if err != nil {
			t.Fatal(err)
		}
		if *out.Name != "full" || *out.Description != "ü" || *out.GroupName != "default" || out.State != types.ScheduleStateEnabled ||
			*out.ScheduleExpressionTimezone != "Europe/Paris" || out.ActionAfterCompletion != types.ActionAfterCompletionDelete ||
			!out.StartDate.Equal(b.start.Add(1500*time.Millisecond)) || !out.EndDate.Equal(b.start.Add(time.Hour)) ||
			!out.CreationDate.Equal(b.start) || *out.Arn != "arn:aws:scheduler:us-east-1:000000000000:schedule/default/full" {
			t.Errorf("%+v", out)
		}
		target := out.Target
		if *target.DeadLetterConfig.Arn != queue || *target.SqsParameters.MessageGroupId != "g" || *target.Input != `{"task_id":"full"}` ||
			*target.RetryPolicy.MaximumRetryAttempts != 185 || *target.RetryPolicy.MaximumEventAgeInSeconds != 86400 {
			t.Errorf("%+v", target)
		}
	})
}

// A request that is sent again, because its answer was lost, succeeds again.
func TestRepeatedRequests(t *testing.T) {
	t.Parallel()
	bubble(t, scheduleremu.Options{}, func(t *testing.T, b *bundle) {
		token := func(in *scheduler.CreateScheduleInput) {
			in.ClientToken, in.ActionAfterCompletion = aws.String("t1"), ""
		}
		at := b.at(time.Second)
		expect(t, "create", b.tryCreate(t, "one", at, token), "ok")
		expect(t, "the same again", b.tryCreate(t, "one", at, token), "ok")
		expect(t, "another schedule under the token", b.tryCreate(t, "one", b.at(time.Hour), token), "409 ConflictException")
		expect(t, "another token", b.tryCreate(t, "one", at), "409 ConflictException")
		time.Sleep(time.Minute)
		expect(t, "the same again, after its time", b.tryCreate(t, "one", at, token), "ok")

		remove := func(token string) error {
			_, err := b.DeleteSchedule(t.Context(), &scheduler.DeleteScheduleInput{Name: aws.String("one"), ClientToken: aws.String(token)})
			return err
		}
		expect(t, "delete", remove("d1"), "ok")
		expect(t, "the same delete again", remove("d1"), "ok")
		expect(t, "another delete", remove("d2"), "404 ResourceNotFoundException")
		time.Sleep(time.Hour)
		b.create(t, "two", b.at(2*time.Hour))
		_, err := b.DeleteSchedule(t.Context(), &scheduler.DeleteScheduleInput{Name: aws.String("two")})
		expect(t, "delete an hour later", err, "ok")
		expect(t, "the first delete, an hour later", remove("d1"), "404 ResourceNotFoundException")
	})
}

func TestMissingSchedules(t *testing.T) {
	t.Parallel()
	bubble(t, scheduleremu.Options{}, func(t *testing.T, b *bundle) {
		const want = "404 ResourceNotFoundException"
		_, err := b.tryGet(t, "none")
		expect(t, "GetSchedule", err, want)
		_, err = b.GetSchedule(t.Context(), &scheduler.GetScheduleInput{Name: aws.String("none"), GroupName: aws.String("none")})
		expect(t, "GetSchedule in an unknown group", err, want)
		_, err = b.DeleteSchedule(t.Context(), &scheduler.DeleteScheduleInput{Name: aws.String("none")})
		expect(t, "DeleteSchedule", err, want)
		_, err = b.ListSchedules(t.Context(), &scheduler.ListSchedulesInput{GroupName: aws.String("none")})
		expect(t, "ListSchedules", err, want)
		in := input("none", b.at(time.Hour))
		_, err = b.UpdateSchedule(t.Context(), &scheduler.UpdateScheduleInput{
			Name: in.Name, ScheduleExpression: in.ScheduleExpression, FlexibleTimeWindow: in.FlexibleTimeWindow, Target: in.Target,
		})
		expect(t, "UpdateSchedule", err, want)
		_, err = b.UpdateSchedule(t.Context(), &scheduler.UpdateScheduleInput{
			Name: in.Name, ScheduleExpression: aws.String(b.at(-time.Hour)), FlexibleTimeWindow: in.FlexibleTimeWindow, Target: in.Target,
		})
		expect(t, "UpdateSchedule to a time that has passed", err, "400 ValidationException")
	})
}

func TestQuota(t *testing.T) {
	t.Parallel()
	bubble(t, scheduleremu.Options{MaxSchedules: 1}, func(t *testing.T, b *bundle) {
		expect(t, "the first", b.tryCreate(t, "one", b.at(time.Second)), "ok")
		expect(t, "the second", b.tryCreate(t, "two", b.at(time.Minute)), "402 ServiceQuotaExceededException")
		time.Sleep(2 * time.Second)
		expect(t, "after the first has fired", b.tryCreate(t, "two", b.at(time.Minute)), "ok")
	})
}

func TestGroups(t *testing.T) {
	t.Parallel()
	bubble(t, scheduleremu.Options{}, func(t *testing.T, b *bundle) {
		create := func(name string, tags ...types.Tag) error {
			_, err := b.CreateScheduleGroup(t.Context(), &scheduler.CreateScheduleGroupInput{Name: aws.String(name), Tags: tags})
			return err
		}
		expect(t, "CreateScheduleGroup", create("wake-ups", types.Tag{Key: aws.String("k"), Value: aws.String("v")}), "ok")
		expect(t, "the same name", create("wake-ups"), "409 ConflictException")
		expect(t, "a bad name", create("a b"), "400 ValidationException")
		group, err := b.GetScheduleGroup(t.Context(), &scheduler.GetScheduleGroupInput{Name: aws.String("wake-ups")})
		if err != nil || group.State != types.ScheduleGroupStateActive {
			t.Fatalf("%+v, %v", group, err)
		}
		tags, err := b.ListTagsForResource(t.Context(), &scheduler.ListTagsForResourceInput{ResourceArn: group.Arn})
		if err != nil || len(tags.Tags) != 1 || *tags.Tags[0].Value != "v" {
			t.Errorf("%+v, %v", tags, err)
		}
		groups, err := b.ListScheduleGroups(t.Context(), &scheduler.ListScheduleGroupsInput{})
		if err != nil || len(groups.ScheduleGroups) != 2 {
			t.Errorf("%+v, %v", groups, err)
		}

		inGroup := func(in *scheduler.CreateScheduleInput) { in.GroupName = aws.String("wake-ups") }
		b.create(t, "same", b.at(time.Hour))
		b.create(t, "same", b.at(time.Hour), inGroup)
		remove := func(name string) error {
			_, err := b.DeleteScheduleGroup(t.Context(), &scheduler.DeleteScheduleGroupInput{Name: aws.String(name)})
			return err
		}
		expect(t, "DeleteScheduleGroup", remove("wake-ups"), "ok")
		expect(t, "again", remove("wake-ups"), "404 ResourceNotFoundException")
		expect(t, "the default group", remove("default"), "400 ValidationException")
		time.Sleep(2 * time.Hour)
		if fires := b.fired.all(); len(fires) != 1 || fires[0].Group != "default" {
			t.Errorf("fired %+v: the schedules of a deleted group are gone", fires)
		}
	})
}

// Paging meets every schedule once, also while schedules come and go.
func TestListing(t *testing.T) {
	t.Parallel()
	b := setup(scheduleremu.Options{})
	defer b.server.Close()
	if _, err := b.CreateScheduleGroup(t.Context(), &scheduler.CreateScheduleGroupInput{Name: aws.String("second")}); err != nil {
		t.Fatal(err)
	}
	var want []string
	for i := range 345 {
		group := []string{"default", "second"}[i%2]
		name := fmt.Sprintf("%s-%04d", []string{"a", "b", "c"}[i%3], i)
		want = append(want, group+"/"+name)
		b.create(t, name, b.at(time.Hour), func(in *scheduler.CreateScheduleInput) { in.GroupName = &group })
	}
	slices.Sort(want)
	for _, c := range []struct {
		group, prefix string
		size          int32
	}{{"", "", 0}, {"", "", 7}, {"default", "", 100}, {"second", "b-", 10}, {"", "c-", 50}, {"", "none", 0}} {
		in := &scheduler.ListSchedulesInput{GroupName: nonEmpty(c.group), NamePrefix: nonEmpty(c.prefix)}
		if c.size > 0 {
			in.MaxResults = aws.Int32(c.size)
		}
		var got []string
		for pages := scheduler.NewListSchedulesPaginator(b, in); pages.HasMorePages(); {
			page, err := pages.NextPage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if limit := max(c.size, 1); c.size > 0 && len(page.Schedules) > int(limit) || len(page.Schedules) > 100 {
				t.Errorf("%+v: a page of %d", c, len(page.Schedules))
			}
			for _, s := range page.Schedules {
				got = append(got, *s.GroupName+"/"+*s.Name)
			}
		}
		var some []string
		for _, w := range want {
			group, name, _ := strings.Cut(w, "/")
			if (c.group == "" || group == c.group) && strings.HasPrefix(name, c.prefix) {
				some = append(some, w)
			}
		}
		if !slices.Equal(got, some) {
			t.Errorf("%+v: %d schedules, want %d", c, len(got), len(some))
		}
	}
	_, err := b.ListSchedules(t.Context(), &scheduler.ListSchedulesInput{NextToken: aws.String("x")})
	expect(t, "an odd token", err, "400 ValidationException")
	_, err = b.ListSchedules(t.Context(), &scheduler.ListSchedulesInput{MaxResults: aws.Int32(101)})
	expect(t, "101 results", err, "400 ValidationException")
}

func nonEmpty(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// Of many that create one name, one does.
func TestConcurrentCreates(t *testing.T) {
	t.Parallel()
	b := setup(scheduleremu.Options{})
	defer b.server.Close()
	outcomes := make([]string, 20)
	var wg sync.WaitGroup
	for i := range outcomes {
		wg.Go(func() { outcomes[i] = outcome(b.tryCreate(t, "one", b.at(time.Hour))) })
	}
	wg.Wait()
	count := map[string]int{}
	for _, o := range outcomes {
		count[o]++
	}
	if count["ok"] != 1 || count["409 ConflictException"] != len(outcomes)-1 {
		t.Errorf("%v", count)
	}
}

// The same over a socket.
func TestOverTCP(t *testing.T) {
	t.Parallel()
	b := setup(scheduleremu.Options{})
	defer b.server.Close()
	listener := httptest.NewServer(b.server)
	defer listener.Close()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	b.Client = newClient(listener.URL, transport)
	b.create(t, "a.b_c-D", b.at(time.Hour))
	_, err := b.tryGet(t, "a.b_c-D")
	expect(t, "GetSchedule", err, "ok")
	_, err = b.tryGet(t, "none")
	expect(t, "GetSchedule of none", err, "404 ResourceNotFoundException")
}
