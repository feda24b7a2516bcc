package cli

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/google/uuid"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/localstack/sluicetest"
	"github.com/sluice-dev/sluice/shared/queue"
	"github.com/sluice-dev/sluice/shared/s3store"
	"github.com/sluice-dev/sluice/shared/task"
	"github.com/sluice-dev/sluice/shared/worker"
)

// startNaps starts a Sluice whose tasks sleep once, and end after a while.
func startNaps(t *testing.T) *sluicetest.Stack {
	t.Helper()
	mux := worker.NewMux()
	worker.Handle(mux, "nap", func(ctx context.Context, hours int) (string, error) {
		if current, ok := worker.TaskFrom(ctx); ok && current.RescheduleCount == 0 && hours > 0 {
			return "", worker.Reschedule(time.Duration(hours) * time.Hour)
		}
		if hours > 0 {
			time.Sleep(time.Minute)
		}
		return "rested", nil
	})
	return sluicetest.Start(t, mux, sluicetest.NoSweep())
}

func poll(t *testing.T, w *watcher) []string {
	t.Helper()
	changes, err := w.poll(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var seen []string
	for _, c := range changes {
		seen = append(seen, c.ID+" "+string(c.Status))
	}
	return seen
}

func TestWatcherSeesEveryStateThatLastsAPoll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := startNaps(t)
		w := newWatcher(s.Store("watch"), selection{})
		s.Submit("nap", 2, queue.ID("a"))
		var seen []string
		for range 300 {
			seen = append(seen, poll(t, w)...)
			time.Sleep(30 * time.Second)
		}
		want := []string{"a pending", "a running", "a completed"}
		if got := slices.Compact(seen); !slices.Equal(got[len(got)-3:], want) {
			t.Errorf("seen %q, want %q at the end", got, want)
		}
	})
}

func TestWatcherFindsTasksThatEndBetweenTwoPolls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := startNaps(t)
		w := newWatcher(s.Store("watch"), selection{})
		poll(t, w)
		for range 3 {
			var want []string
			for range 50 {
				want = append(want, s.Submit("nap", 0).ID+" completed")
			}
			time.Sleep(5 * time.Minute)
			got := poll(t, w)
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Fatalf("seen %d of %d", len(got), len(want))
			}
		}
		if again := poll(t, w); len(again) > 0 {
			t.Errorf("seen again: %d", len(again))
		}
	})
}

func TestWatcherFindsNewRecordsBehindFullPages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := startNaps(t).Store("watch")
		w := newWatcher(store, selection{})
		poll(t, w)
		const shard = "0"
		want := 0
		for range 3 {
			written := 0
			for written < 1100 {
				id := idAt(time.Now())[:len("00000000-0000-7")] + uuid.NewString()[len("00000000-0000-7"):]
				if task.Shard(id) != shard {
					continue
				}
				written++
				ended := task.New(id, "nap", time.Now())
				ended.Status, ended.Revision = task.Completed, 1
				if _, err := store.Write(t.Context(), s3store.Record{}, ended); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(2 * clockSkew)
			poll(t, w)
			if want += written; w.counts()[task.Completed] != want {
				t.Fatalf("%d seen, want %d", w.counts()[task.Completed], want)
			}
		}
	})
}

func TestWatcherPollsCheaply(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := startNaps(t)
		for range 300 {
			s.Submit("nap", 24)
		}
		time.Sleep(time.Minute)
		w := newWatcher(s.Store("watch"), selection{})
		poll(t, w)
		time.Sleep(2 * time.Second)
		before := s.Cloud.Requests().Snapshot("watch")
		poll(t, w)
		spent := s.Cloud.Requests().Snapshot("watch").Diff(before)
		if lists, all := spent.Of(cloud.S3, "ListObjectsV2"), spent.Total(); lists != 17 || all != 17 {
			t.Errorf("a poll of 300 sleepers made %s, want 17 LIST requests only", spent)
		}
	})
}

func TestWatcherLeavesOutWhatIsFiltered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := startNaps(t)
		s.Submit("nap", 1, queue.ID("other"))
		s.Submit("nap", 1, queue.ID("mine"), queue.Tag("team", "sales"))
		time.Sleep(time.Minute)
		w := newWatcher(s.Store("watch"), selection{tags: pairsFlag{values: map[string]string{"team": "sales"}}})
		if got := poll(t, w); !slices.Equal(got, []string{"mine pending"}) {
			t.Errorf("seen %q", got)
		}
		before := s.Cloud.Requests().Snapshot("watch")
		time.Sleep(2 * time.Hour)
		if got := poll(t, w); !slices.Equal(got, []string{"mine completed"}) {
			t.Errorf("seen %q", got)
		}
		if n := s.Cloud.Requests().Snapshot("watch").Diff(before).Of(cloud.S3, "GetObject"); n > 2 {
			t.Errorf("%d reads, the other task is none of its concern", n)
		}
		if n := w.counts(); n.total() != 1 || n[task.Completed] != 1 {
			t.Errorf("counts are %v", n)
		}
	})
}

// failingGets makes reads of records fail while it is on.
type failingGets struct {
	*s3.Client

	on bool
}

func (f *failingGets) GetObject(ctx context.Context, in *s3.GetObjectInput, options ...func(*s3.Options)) (*s3.GetObjectOutput, error) {
	if f.on {
		return nil, fmt.Errorf("%s", http.StatusText(http.StatusServiceUnavailable))
	}
	return f.Client.GetObject(ctx, in, options...)
}

func TestWatcherLosesNothingToAPollThatFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := startNaps(t)
		api := &failingGets{Client: s3store.NewClient(s.Config("watch"))}
		w := newWatcher(s3store.New(api, s.Bucket), selection{})
		poll(t, w)
		s.Submit("nap", 0, queue.ID("a"))
		time.Sleep(time.Hour)
		api.on = true
		if _, err := w.poll(t.Context()); err == nil {
			t.Fatal("the poll did not fail")
		}
		time.Sleep(time.Hour)
		api.on = false
		if got := poll(t, w); !slices.Equal(got, []string{"a completed"}) {
			t.Errorf("seen %q", got)
		}
	})
}

func TestWatchTableIsDrawnInPlace(t *testing.T) {
	t.Parallel()
	var screen bytes.Buffer
	out := &printer{Writer: bufio.NewWriter(&screen), terminal: true, width: 80}
	a := &app{out: out, err: out}
	v := &watchView{app: a, watcher: newWatcher(nil, selection{})}
	at := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 30 {
		sleeper := task.New(fmt.Sprintf("t%02d", i), "nap", at)
		v.watcher.note(sleeper)
	}
	v.show(nil)
	_ = out.flush()
	first := screen.String()
	if got := strings.Count(first, "\n"); got != 1+1+20+1 || !strings.Contains(first, "and 10 tasks more") {
		t.Errorf("%d lines:\n%s", got, first)
	}
	screen.Reset()
	v.show(nil)
	_ = out.flush()
	if second := screen.String(); !strings.HasPrefix(second, "\x1b[23A\r\x1b[J") {
		t.Errorf("the second table does not replace the first: %q", second)
	}
}
