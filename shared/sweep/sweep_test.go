package sweep_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/shared/s3store"
	"github.com/sluice-dev/sluice/shared/sweep"
	"github.com/sluice-dev/sluice/shared/task"
)

// claimed is a claim at the time, with a lease of fifteen minutes.
func claimed(at time.Time) step {
	return step{task.Claim{LeaseID: "lease", LeaseExpiresAt: at.Add(15 * time.Minute)}, at}
}

func TestWhatIsOverdueIsRedrivenAndNothingElse(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bundle) {
		start := time.Now()
		var want []string
		overdue := func(id string, changes ...func(*task.Task)) task.Task {
			want = append(want, id)
			return b.submit(id, changes...)
		}
		in := func(d time.Duration) func(*task.Task) {
			return func(t *task.Task) { t.AvailableAt = start.Add(d) }
		}

		overdue("never-claimed")
		overdue("delayed-and-due", in(39*time.Minute))
		overdue("expired-asleep", in(24*time.Hour), func(t *task.Task) { at := start.Add(5 * time.Minute); t.ExpiresAt = &at })
		b.record(overdue("asleep-too-long"), claimed(start), step{task.Reschedule{Delay: 39 * time.Minute}, start})
		b.record(overdue("worker-died"), claimed(start))
		b.record(overdue("not-cleaned-up"), claimed(start), step{task.Success{}, start})
		overdue("replayed-and-due", func(t *task.Task) { t.ReplayRevision = 3 })

		b.submit("delayed", in(2*time.Hour))
		b.submit("delayed-and-due-just-now", in(41*time.Minute))
		b.record(b.submit("asleep"), claimed(start), step{task.Reschedule{Delay: 41 * time.Minute}, start})
		b.record(b.submit("running"), claimed(start.Add(30*time.Minute)))
		b.record(b.submit("ended-just-now"), claimed(start), step{task.Success{}, start.Add(41 * time.Minute)})
		b.record(b.submit("throttled"), step{task.Throttle{Policy: "p", Until: start.Add(41 * time.Minute)}, start})

		time.Sleep(time.Hour)
		b.submit("submitted-just-now")
		report := b.run()
		b.drivenOnce(want)
		got := []int{report.LostEvents, report.LostWakeups, report.DeadLeases, report.Leftovers, report.NoTasks, report.Redriven, report.Listed}
		if !slices.Equal(got, []int{4, 1, 1, 1, 0, 7, 14}) || !report.Round || report.Stop != "" {
			t.Errorf("report = %+v", report)
		}
		if report.OldestOverdueSeconds != 3600 {
			t.Errorf("the oldest was overdue for %v s, not an hour", report.OldestOverdueSeconds)
		}
	})
}

func TestWhatIsNoTaskIsRedrivenByItsKey(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bundle) {
		odd := []string{
			"inbox/readme.txt", "inbox/a b+c%20é.json", "inbox/0/", "inbox/" + task.Shard("x") + "x/x.json",
			"inbox/1/line\nfeed.json", "inbox/2/control\x01.json", "inbox/3/<&>.json", "inbox/" + strings.Repeat("k", 900),
		}
		for _, key := range odd {
			b.put(key, "{}")
		}
		invalid := "inbox/" + task.Shard("invalid") + "/invalid.json"
		b.put(invalid, `{"task_type": 5}`)
		time.Sleep(time.Hour)
		b.put("inbox/new.txt", "")

		report := b.run()
		synctest.Wait()
		slices.Sort(odd)
		if got := slices.Sorted(maps.Keys(b.claim.keys)); !slices.Equal(got, odd) {
			t.Errorf("re-driven keys = %q\nwant %q", got, odd)
		}
		b.drivenOnce([]string{"invalid"})
		if report.NoTasks != len(odd)+1 {
			t.Errorf("report = %+v", report)
		}
	})
}

func TestAFolderObjectDoesNotStopTheSweep(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bundle) {
		b.put("inbox/", "") // as the console makes it
		ids := b.submitMany(5)
		time.Sleep(time.Hour)
		b.untilRound(func(c *sweep.Config) { c.MaxTasks = 1 })
		b.drivenOnce(ids)
		if b.claim.keys["inbox/"] != 1 {
			t.Errorf("re-driven keys: %v", b.claim.keys)
		}
	})
}

func TestAnIdleQueueCostsTwoRequestsARun(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bundle) {
		for range 3 {
			b.run()
		}
		got := b.cloud.Requests().Snapshot("sweep").String()
		if want := "s3.GetObject=3 s3.ListObjectsV2=3"; got != want {
			t.Errorf("requests: %s; want %s", got, want)
		}
	})
}

func TestYoungTasksAreNotRead(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bundle) {
		b.submitMany(1500)
		time.Sleep(sweep.DefaultGrace - time.Minute)
		report := b.run()
		got := b.cloud.Requests().Snapshot("sweep").String()
		if want := "s3.GetObject=1 s3.ListObjectsV2=2"; got != want || report.Listed != 1500 || report.Redriven != 0 {
			t.Errorf("requests: %s; want %s; report %+v", got, want, report)
		}
	})
}

func TestTensOfThousandsOfTasksWhoseEventsAndWakeupsWereLost(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bundle) {
		const n = 20_000
		ids := b.submitMany(n)
		for i, id := range ids {
			if i%10 != 0 { // the others were never claimed
				asleep := task.New(id, "job", time.Now())
				asleep.Revision, asleep.RescheduleCount = 2, 1
				b.fill(s3store.TaskKey(id), asleep.Encode())
			}
		}
		time.Sleep(time.Hour)
		runs, found := 0, sweep.Report{}
		for round := false; !round; runs++ {
			before := b.cloud.Requests().Snapshot("sweep")
			report := b.run()
			found.LostEvents += report.LostEvents
			found.LostWakeups += report.LostWakeups
			if used := b.cloud.Requests().Snapshot("sweep").Diff(before).Total(); used > sweep.DefaultMaxRequests || used != report.Requests {
				t.Errorf("run %d made %d requests and reports %d, the bound is %d", runs, used, report.Requests, sweep.DefaultMaxRequests)
			}
			if round = report.Round; !round && report.Stop != sweep.StopBudget {
				t.Errorf("run %d: %+v", runs, report)
			}
			synctest.Wait()
		}
		b.drivenOnce(ids)
		if found.LostEvents != n/10 || found.LostWakeups != n-n/10 || runs < 3 {
			t.Errorf("%d runs found %+v", runs, found)
		}
		if got := slices.Max(b.claim.batches); got > sweep.DefaultBatchSize {
			t.Errorf("a batch has %d tasks", got)
		}
		if b.storedCursor() != `{"after":"","round_started_at":"0001-01-01T00:00:00Z","run":""}` {
			t.Errorf("after the round the cursor is %s", b.storedCursor())
		}
	})
}

// A run may spend so much and no more, whatever the bound and wherever it
// stops; and however little that is, all tasks have their turn.
func TestARunStopsAtItsBudgetAndTheNextGoesOn(t *testing.T) {
	for _, budget := range []struct{ requests, tasks int }{
		{10, 0}, {11, 0}, {17, 3}, {100, 7}, {1000, 1}, {0, 7}, {1003, 400}, {5000, 0},
	} {
		t.Run(fmt.Sprintf("%d requests, %d tasks", budget.requests, budget.tasks), func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bundle) {
				n := 1100
				if budget.requests > 0 && budget.requests < 1000 || budget.tasks > 0 && budget.tasks < 100 {
					n = 60
				}
				ids := b.submitMany(n)
				time.Sleep(time.Hour)
				for runs, round := 0, false; !round; runs++ {
					if runs > n {
						t.Fatal("the sweep does not get to the end")
					}
					before := b.cloud.Requests().Snapshot("sweep")
					report := b.run(func(c *sweep.Config) { c.MaxRequests, c.MaxTasks = budget.requests, budget.tasks })
					used := b.cloud.Requests().Snapshot("sweep").Diff(before).Total()
					if budget.requests > 0 && used > budget.requests {
						t.Errorf("run %d made %d requests", runs, used)
					}
					if budget.tasks > 0 && report.Redriven > budget.tasks {
						t.Errorf("run %d re-drove %d tasks", runs, report.Redriven)
					}
					round = report.Round
				}
				b.drivenOnce(ids)
			})
		})
	}
}

func TestARunStopsBeforeItsDeadlineAndTheNextGoesOn(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bundle) {
		ids := b.submitMany(1200)
		time.Sleep(time.Hour)
		b.cloud.SetLatency(cloud.S3, 2*time.Second)
		stopped := 0
		for round := false; !round; {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			report, err := b.sweeper().Run(ctx)
			if err != nil || ctx.Err() != nil {
				t.Fatalf("after %d runs: %v, %v", stopped, err, ctx.Err())
			}
			cancel()
			if round = report.Round; !round {
				stopped++
				if report.Stop != sweep.StopTime || report.Listed == 0 {
					t.Errorf("report = %+v", report)
				}
			}
		}
		b.driven(ids)
		if stopped < 2 {
			t.Errorf("%d runs were stopped: the test shows nothing", stopped)
		}
	})
}

func TestASleeperThatNeverEndsDoesNotKeepOthersWaiting(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bundle) {
		for i := range 300 { // sorts and lists before and between the others
			b.submit(fmt.Sprintf("task-%05d-asleep", i), func(t *task.Task) { t.AvailableAt = time.Now().AddDate(100, 0, 0) })
		}
		ids := b.submitMany(300)
		time.Sleep(time.Hour)
		b.untilRound(func(c *sweep.Config) { c.MaxRequests = 50 })
		b.drivenOnce(ids)
	})
}

func TestEveryRoundRedrivesWhatIsStillOverdue(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bundle) {
		b.submit("stuck")
		time.Sleep(time.Hour)
		b.run()
		b.run()
		synctest.Wait()
		if b.claim.ids["stuck"] != 2 {
			t.Errorf("re-driven %d times", b.claim.ids["stuck"])
		}
	})
}

func TestATaskThatCannotBeReadDoesNotKeepOthersWaiting(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bundle) {
		ids := b.submitMany(20)
		b.submit("damaged")
		b.put("tasks/"+task.Shard("damaged")+"/damaged.json", "{")
		b.submit("denied")
		b.cloud.SetFault(func(r *cloud.Request) cloud.Fault {
			if r.Is(cloud.S3, "GetObject") && strings.Contains(r.Key, "denied") {
				return cloud.Fault{Status: 403, Code: "AccessDenied"}
			}
			return cloud.Fault{}
		})
		time.Sleep(time.Hour)
		report, err := b.sweeper().Run(t.Context())
		if err == nil || !strings.Contains(err.Error(), "2 tasks could not be looked at") || !strings.Contains(err.Error(), "denied") {
			t.Errorf("error = %v", err)
		}
		if report.Unreadable != 2 || !report.Round {
			t.Errorf("report = %+v", report)
		}
		b.drivenOnce(ids)

		b.cloud.SetFault(nil)
		if report := b.run(); report.Unreadable != 1 {
			t.Errorf("report = %+v: a damaged record is counted and makes no run fail", report)
		}
	})
}

func TestWhatWasNotHandedOverIsNotPassed(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bundle) {
		ids := b.submitMany(600)
		time.Sleep(time.Hour)
		var invocations atomic.Int64
		b.cloud.FailNext(5, cloud.Fault{Status: 403, Code: "AccessDeniedException"}, func(r *cloud.Request) bool {
			return r.Is(cloud.Lambda) && invocations.Add(1)%11 == 5
		})
		failed := 0
		for round := false; !round; {
			report, err := b.sweeper().Run(t.Context())
			if round = report.Round; err != nil {
				failed++
				if !strings.Contains(err.Error(), "invoke the claim function claim") {
					t.Fatal(err)
				}
			}
		}
		if failed == 0 {
			t.Error("no invocation failed: the test shows nothing")
		}
		b.driven(ids)
	})
}

func TestSettingsThatCannotWorkAreRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bundle) {
		for want, change := range map[string]func(*sweep.Config){
			"are required": func(c *sweep.Config) { c.Lambda = nil },
			"MaxRequests is 9: it must be at least 10": func(c *sweep.Config) { c.MaxRequests = 9 },
			"MaxTasks is -1":                        func(c *sweep.Config) { c.MaxTasks = -1 },
			"BatchSize is 1001: it must be at most": func(c *sweep.Config) { c.BatchSize = 1001 },
			"Grace is -1s":                          func(c *sweep.Config) { c.Grace = -time.Second },
		} {
			c := sweep.Config{Store: b.Store, Lambda: nothing{}, ClaimFunction: "claim"}
			change(&c)
			if _, err := sweep.New(c); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error = %v, want %q", err, want)
			}
		}
	})
}

func TestABucketThatIsNotThereIsAnError(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bundle) {
		_, err := b.client.DeleteBucket(t.Context(), &s3.DeleteBucketInput{Bucket: aws.String(b.bucket)})
		if err != nil {
			t.Fatal(err)
		}
		_, err = b.sweeper().Run(t.Context())
		if err == nil || !strings.Contains(err.Error(), "does not exist") || errors.Is(err, context.Canceled) {
			t.Errorf("error = %v", err)
		}
	})
}
