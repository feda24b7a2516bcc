package sweep_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/shared/sweep"
)

// deaths are the moments at which a process can die around its n-th request:
// before it is sent, and when it has been carried out but not answered.
var deaths = map[string]cloud.Fault{"before": cloud.Unreachable, "after": cloud.LostAnswer}

// dieAt has the sweep's process die around its n-th request from now: nothing
// it sends from then on arrives.
func (b *bundle) dieAt(n int64, fault cloud.Fault) (died func() bool) {
	var requests atomic.Int64
	b.cloud.SetFault(func(r *cloud.Request) cloud.Fault {
		switch i := requests.Add(1); {
		case !r.From("sweep") || i < n:
			return cloud.Fault{}
		case i == n:
			return fault
		default:
			return cloud.Unreachable
		}
	})
	return func() bool { return requests.Load() >= n }
}

// runToDeath sweeps once with a process that dies at its n-th request.
func (b *bundle) runToDeath(n int64, fault cloud.Fault, changes ...func(*sweep.Config)) (died bool) {
	b.t.Helper()
	reached := b.dieAt(n, fault)
	_, _ = b.sweeper(changes...).Run(b.t.Context()) // nobody sees what a dead process returns
	b.cloud.SetFault(nil)
	return reached()
}

func TestTheSweepMayDieAtAnyRequest(t *testing.T) {
	for name, fault := range deaths {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bundle) {
				ids := b.submitMany(25)
				time.Sleep(time.Hour)
				small := func(c *sweep.Config) { c.MaxRequests, c.BatchSize = 30, 4 }
				deaths := 0
				for n := int64(1); ; n++ {
					if !b.runToDeath(n, fault, small) {
						break
					}
					deaths++
					b.untilRound(small)
					b.driven(ids)
					clear(b.claim.ids)
				}
				if deaths < 20 {
					t.Errorf("died only %d times", deaths)
				}
			})
		})
	}
}

// Dying again and again, each time after a little more work, does not keep the
// sweep from getting on: the position is saved page by page.
func TestTheSweepGetsOnThoughEveryRunDies(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bundle) {
		ids := b.submitMany(2200)
		time.Sleep(time.Hour)
		const lifetime = 2100 // requests: a page costs at most 2,042
		for range 5 {
			b.runToDeath(lifetime, cloud.Unreachable)
		}
		b.driven(ids)
	})
}

// While S3 and Lambda answer badly a run may end with an error. What it could
// not do is done when they are well again.
func TestASweepOnABadDayLosesNothing(t *testing.T) {
	for name, fault := range map[string]cloud.Fault{
		"broken before": cloud.Unreachable, "broken after": cloud.LostAnswer, "500": cloud.InternalError,
		"503": cloud.SlowDown, "twice": {Repeat: true}, "500 after": {Status: 500, Code: "InternalError", After: true},
	} {
		for _, every := range []int{3, 11} {
			t.Run(fmt.Sprintf("%s, one in %d", name, every), func(t *testing.T) {
				inBubble(t, func(t *testing.T, b *bundle) {
					ids := b.submitMany(200)
					time.Sleep(time.Hour)
					var failed atomic.Int64
					b.cloud.SetFault(func(r *cloud.Request) cloud.Fault {
						if r.From("sweep") && r.Number%every == 0 {
							failed.Add(1)
							return fault
						}
						return cloud.Fault{}
					})
					small := func(c *sweep.Config) { c.MaxRequests = 300 }
					for range 5 {
						_, _ = b.sweeper(small).Run(t.Context())
					}
					b.cloud.SetFault(nil)
					b.untilRound(small)
					b.untilRound(small)
					b.driven(ids)
					if failed.Load() < 50 {
						t.Errorf("only %d requests failed", failed.Load())
					}
				})
			})
		}
	}
}

// A position whose write was done and whose answer was lost is our own: the
// run goes on.
func TestACursorWriteWhoseAnswerIsLostIsNotTakenForAnotherSweep(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bundle) {
		ids := b.submitMany(2100)
		time.Sleep(time.Hour)
		b.cloud.FailNext(1, cloud.LostAnswer, func(r *cloud.Request) bool { return r.Is(cloud.S3, "PutObject") })
		if report := b.run(); !report.Round {
			t.Errorf("report = %+v", report)
		}
		b.drivenOnce(ids)
	})
}

func TestTwoSweepsAtOnceDoNoHarm(t *testing.T) {
	for _, pause := range []int{0, 1, 3} {
		t.Run(fmt.Sprintf("%d s apart", pause), func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bundle) {
				ids := b.submitMany(1100)
				time.Sleep(time.Hour)
				b.cloud.SetLatency(cloud.S3, 100*time.Millisecond)
				var reports [2]sweep.Report
				var sweeps sync.WaitGroup
				for i := range reports {
					s := b.sweeper()
					sweeps.Go(func() {
						time.Sleep(time.Duration(i*pause) * time.Second)
						var err error
						if reports[i], err = s.Run(t.Context()); err != nil {
							t.Error(err)
						}
					})
				}
				sweeps.Wait()
				if reports[0].Round == reports[1].Round {
					t.Errorf("one gets to the end, the other gives way: %+v", reports)
				}
				b.driven(ids)
			})
		})
	}
}

func TestADamagedCursorStartsOver(t *testing.T) {
	for _, damaged := range []string{
		``, `{`, `null`, `[]`, `{"after":5}`, `{"after":"tasks/x"}`, `{"after":"inbox/","After":"inbox/f"}`, `{"after":"inbox/f","shard":"a"}`,
		`{"after":"inbox/f","after":"inbox/f"}`, `{"after":"inbox/f"}{}`, "{\"after\":\"inbox/\xff\"}", "\x00\x01",
	} {
		t.Run(damaged, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bundle) {
				ids := b.submitMany(50)
				b.put(cursorKey, damaged)
				time.Sleep(time.Hour)
				b.run(func(c *sweep.Config) { c.MaxTasks = 30 })
				b.run(func(c *sweep.Config) { c.MaxTasks = 30 })
				b.drivenOnce(ids)
			})
		})
	}
}

// A cursor that is lost, or moved to anywhere, costs a round and no task.
func TestACursorThatWasMovedDelaysAndLosesNothing(t *testing.T) {
	for name, move := range map[string]func(b *bundle){
		"deleted": func(b *bundle) {
			_, err := b.client.DeleteObject(b.t.Context(), &s3.DeleteObjectInput{Bucket: &b.bucket, Key: aws.String(cursorKey)})
			if err != nil {
				b.t.Fatal(err)
			}
		},
		"to the end":       func(b *bundle) { b.put(cursorKey, `{"after":"inbox/zzz"}`) },
		"to the beginning": func(b *bundle) { b.put(cursorKey, `{"after":"inbox/"}`) },
		"to the middle":    func(b *bundle) { b.put(cursorKey, `{"after":"inbox/8/"}`) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bundle) {
				ids := b.submitMany(60)
				time.Sleep(time.Hour)
				few := func(c *sweep.Config) { c.MaxTasks = 25 }
				b.run(few)
				move(b)
				b.untilRound(few)
				b.untilRound(few)
				b.driven(ids)
			})
		})
	}
}

func TestACursorThatCannotBeReadIsAnError(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bundle) {
		b.submitMany(1)
		time.Sleep(time.Hour)
		b.cloud.SetFault(func(r *cloud.Request) cloud.Fault {
			if r.Key == cursorKey {
				return cloud.Fault{Status: 403, Code: "AccessDenied"}
			}
			return cloud.Fault{}
		})
		if _, err := b.sweeper().Run(t.Context()); err == nil {
			t.Error("no error")
		}
		b.driven(nil)
	})
}

func TestARunWhoseContextEndsSaysSo(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bundle) {
		b.submitMany(50)
		time.Sleep(time.Hour)
		b.cloud.SetLatency(cloud.S3, time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(2500*time.Millisecond, cancel)
		if _, err := b.sweeper().Run(ctx); err == nil {
			t.Error("no error")
		}
	})
}

func TestTheLogLineCarriesTheMetrics(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bundle) {
		b.submitMany(3)
		time.Sleep(time.Hour)
		var log bytes.Buffer
		b.run(func(c *sweep.Config) { c.Log, c.FunctionName = slog.New(slog.NewJSONHandler(&log, nil)), "acme-sweep" })
		const want = `{"time":"2000-01-01T01:00:00Z","level":"INFO","msg":"sweep","FunctionName":"acme-sweep",` +
			`"SweepRedriven":3,"SweepUnreadable":0,"SweepOldestOverdue":3600,"SweepRoundTime":0,` +
			`"_aws":{"Timestamp":946688400000,"CloudWatchMetrics":[{"Namespace":"Sluice","Dimensions":[["FunctionName"]],` +
			`"Metrics":[{"Name":"SweepRedriven","Unit":"Count"},{"Name":"SweepUnreadable","Unit":"Count"},` +
			`{"Name":"SweepOldestOverdue","Unit":"Seconds"},{"Name":"SweepRoundTime","Unit":"Seconds"}]}]},` +
			`"listed":3,"lost_events":3,"lost_wakeups":0,"dead_leases":0,"leftovers":0,"no_tasks":0,"requests":9,"round":true,"stop":""}` + "\n"
		if got := log.String(); got != want {
			t.Errorf("log:\n%s\nwant:\n%s", got, want)
		}
	})
}
