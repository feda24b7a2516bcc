package queue_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/shared/queue"
	"github.com/sluice-dev/sluice/shared/s3store"
	"github.com/sluice-dev/sluice/shared/task"
)

// fill puts objects into the bucket without the detour over a client.
func (b *bundle) fill(key string, body []byte) {
	b.t.Helper()
	answer := httptest.NewRecorder()
	b.cloud.S3().ServeHTTP(answer, httptest.NewRequest(http.MethodPut, "/"+b.bucket+"/"+key, strings.NewReader(string(body))))
	if answer.Code != http.StatusOK {
		b.t.Fatal(answer.Body)
	}
}

// stored puts a task where it would be: in the inbox unless it has ended, with
// a record unless it is new.
func (b *bundle) stored(t task.Task) {
	b.t.Helper()
	if !t.Status.Terminal() {
		b.fill(s3store.InboxKey(t.ID), t.EncodeSubmission())
	}
	if t.Status != task.Pending || t.Revision > 0 {
		b.fill(s3store.TaskKey(t.ID), t.Encode())
	}
}

// inShard makes n ids of one shard.
func inShard(shard string, n int) []string {
	var ids []string
	for i := 0; len(ids) < n; i++ {
		if id := fmt.Sprintf("task-%06d", i); task.Shard(id) == shard {
			ids = append(ids, id)
		}
	}
	return ids
}

// list reads all pages.
func (b *bundle) list(o queue.ListOptions) (ids []string, pages int) {
	b.t.Helper()
	for {
		page, err := b.List(b.t.Context(), o)
		if err != nil {
			b.t.Fatal(err)
		}
		pages++
		for _, t := range page.Tasks {
			ids = append(ids, t.ID)
		}
		if page.Cursor == "" {
			return ids, pages
		}
		o.Cursor = page.Cursor
	}
}

// byName orders ids as a list does.
func byName(ids []string) []string {
	return slices.SortedFunc(slices.Values(ids), func(a, b string) int { return strings.Compare(a+".json", b+".json") })
}

func TestEachOfThousandsOfTasksIsListedOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bundle) {
		const n = 2345
		var want []string
		for i := range n {
			made := task.New(fmt.Sprintf("task-%05d", i), "job", time.Now())
			if i%3 == 1 {
				made.Status, made.Revision = task.Completed, 3
			}
			b.stored(made)
			want = append(want, made.ID)
		}
		for _, limit := range []int{1000} {
			got, pages := b.list(queue.ListOptions{Limit: limit})
			if !slices.Equal(got, want) {
				t.Errorf("limit %d: %d tasks", limit, len(got))
			}
			if wanted := (n + limit - 1) / limit; pages != wanted {
				t.Errorf("limit %d: %d pages, not %d", limit, pages, wanted)
			}
		}
	})
}

func TestMoreThanAThousandTasksInOneShard(t *testing.T) {
	for name, status := range map[string]func(i int) (task.Status, int64){
		"asleep":     func(int) (task.Status, int64) { return task.Pending, 2 },
		"mixed":      func(i int) (task.Status, int64) { return task.Statuses()[i%6], int64(i % 2) },
		"first half": func(i int) (task.Status, int64) { return task.Statuses()[i/550*2], 1 },
		"last half":  func(i int) (task.Status, int64) { return task.Statuses()[2-i/550*2], 1 },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bundle) {
				ids := inShard("7", 1100)
				live := 0
				for i, id := range ids {
					made := task.New(id, "job", time.Now())
					if made.Status, made.Revision = status(i); made.Status == task.Running {
						end := time.Now().Add(time.Hour)
						made.LeaseID, made.LeaseExpiresAt, made.Revision = "lease", &end, 1
					}
					if !made.Status.Terminal() {
						live++
					}
					b.stored(made)
				}
				if got, _ := b.list(queue.ListOptions{Limit: 1050}); !slices.Equal(got, ids) {
					t.Errorf("%d tasks", len(got))
				}
				if got, _ := b.list(queue.ListOptions{Limit: 5000, Statuses: []task.Status{task.Pending, task.Running}}); len(got) != live {
					t.Errorf("%d live tasks of %d", len(got), live)
				}
			})
		})
	}
}

// A task that ends while it is listed moves from the one area of the bucket
// to the other: it is listed all the same, once.
func TestATaskThatEndsWhileItIsListedIsListedOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bundle) {
		ids := inShard("7", 1100)
		for _, id := range ids {
			b.stored(task.New(id, "job", time.Now()))
		}
		left := slices.Clone(ids)
		b.cloud.SetFault(func(r *cloud.Request) cloud.Fault {
			if r.From("producer") && r.Is(cloud.S3, "ListObjectsV2") && strings.HasSuffix(r.HTTP.URL.Query().Get("prefix"), "/7/") {
				return cloud.Fault{Then: func() { // some end between any two listings, at both ends and in the middle
					for range min(20, len(left)/3) {
						middle := len(left) / 2
						for _, i := range []int{len(left) - 1, middle, 0} {
							b.complete(left[i])
							left = slices.Delete(left, i, i+1)
						}
					}
				}}
			}
			return cloud.Fault{}
		})
		got, _ := b.list(queue.ListOptions{Limit: 5000})
		if !slices.Equal(got, ids) {
			t.Errorf("%d tasks of %d", len(got), len(ids))
		}
		if len(left) == len(ids) {
			t.Error("none ended: the test shows nothing")
		}
	})
}

func TestIDsThatBeginAlikeAreInOrderAndPaged(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bundle) {
		var ids []string
		for _, base := range []string{"a", "a-", "a-b", "a-b-c", "a0", "aa", "a_", "A", "A-1", "0", "0-0", "z"} {
			for _, end := range []string{"", "-", "-x", "0", "_"} {
				if id := base + end; !slices.Contains(ids, id) {
					ids = append(ids, id)
					made := task.New(id, "job", time.Now())
					if len(ids)%2 == 0 {
						made.Status, made.Revision = task.Failed, 2
					}
					b.stored(made)
				}
			}
		}
		want := byName(ids)
		for _, limit := range []int{1, 7} {
			if got, _ := b.list(queue.ListOptions{Limit: limit}); !slices.Equal(got, want) {
				t.Errorf("limit %d: %v\nwant %v", limit, got, want)
			}
		}
	})
}

func TestWhatIsSelected(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bundle) {
		start := time.Now()
		var all []task.Task
		for i := range 36 {
			made := b.submit(i, queue.ID(fmt.Sprintf("task-%02d", i)), queue.Tag("even", strconv.FormatBool(i%2 == 0)), queue.Tag("third", fmt.Sprint(i%3)))
			switch i % 6 {
			case 1:
				made = b.apply(made.ID, claim())
			case 2:
				made = b.complete(made.ID)
			case 3:
				made = b.apply(made.ID, claim(), task.Failure{Permanent: true})
			case 4:
				made = b.apply(made.ID, task.Cancel{})
			}
			all = append(all, made)
			time.Sleep(time.Minute)
		}
		made := func(i int) time.Time { return start.Add(time.Duration(i) * time.Minute) }
		for name, tt := range map[string]struct {
			o  queue.ListOptions
			ok func(i int, t task.Task) bool
		}{
			"all":           {queue.ListOptions{}, func(int, task.Task) bool { return true }},
			"pending":       {queue.ListOptions{Statuses: []task.Status{task.Pending}}, func(_ int, t task.Task) bool { return t.Status == task.Pending }},
			"running":       {queue.ListOptions{Statuses: []task.Status{task.Running}}, func(_ int, t task.Task) bool { return t.Status == task.Running }},
			"completed":     {queue.ListOptions{Statuses: []task.Status{task.Completed}}, func(_ int, t task.Task) bool { return t.Status == task.Completed }},
			"ended badly":   {queue.ListOptions{Statuses: []task.Status{task.Failed, task.Cancelled, task.Expired}}, func(_ int, t task.Task) bool { return t.Status == task.Failed || t.Status == task.Cancelled }},
			"across":        {queue.ListOptions{Statuses: []task.Status{task.Pending, task.Failed}}, func(_ int, t task.Task) bool { return t.Status == task.Pending || t.Status == task.Failed }},
			"none":          {queue.ListOptions{Statuses: []task.Status{task.Expired}}, func(int, task.Task) bool { return false }},
			"type":          {queue.ListOptions{Type: "job"}, func(int, task.Task) bool { return true }},
			"other type":    {queue.ListOptions{Type: "mail"}, func(int, task.Task) bool { return false }},
			"a tag":         {queue.ListOptions{Tags: map[string]string{"even": "true"}}, func(i int, _ task.Task) bool { return i%2 == 0 }},
			"both tags":     {queue.ListOptions{Tags: map[string]string{"even": "true", "third": "1"}}, func(i int, _ task.Task) bool { return i%2 == 0 && i%3 == 1 }},
			"a missing tag": {queue.ListOptions{Tags: map[string]string{"odd": ""}}, func(int, task.Task) bool { return false }},
			"since":         {queue.ListOptions{Since: made(30)}, func(i int, _ task.Task) bool { return i >= 30 }},
			"since, later":  {queue.ListOptions{Since: made(30).Add(1)}, func(i int, _ task.Task) bool { return i > 30 }},
			"before":        {queue.ListOptions{Before: made(20)}, func(i int, _ task.Task) bool { return i < 20 }},
			"between":       {queue.ListOptions{Since: made(10), Before: made(12), Statuses: []task.Status{task.Completed, task.Cancelled, task.Failed}}, func(i int, _ task.Task) bool { return i == 10 }},
		} {
			var want []string
			for i, made := range all {
				if tt.ok(i, made) {
					want = append(want, made.ID)
				}
			}
			for _, limit := range []int{0, 7} {
				tt.o.Limit = limit
				if got, _ := b.list(tt.o); !slices.Equal(got, want) {
					t.Errorf("%s, limit %d: %v\nwant %v", name, limit, got, want)
				}
			}
		}
	})
}

func TestARecentListReadsRecentTasksOnly(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bundle) {
		for i := range 200 {
			made := task.New(fmt.Sprintf("old-%03d", i), "job", time.Now())
			made.Status, made.Revision = task.Completed, 3
			b.stored(made)
		}
		time.Sleep(24 * time.Hour)
		b.submit(1, queue.ID("new"))
		b.cloud.Requests().Reset()
		got, _ := b.list(queue.ListOptions{Since: time.Now().Add(-time.Hour)})
		if reads := b.cloud.Requests().Snapshot("producer").Of(cloud.S3, "GetObject"); !slices.Equal(got, []string{"new"}) || reads > 3 {
			t.Errorf("listed %v with %d reads", got, reads)
		}
	})
}

func TestAShortListReadsFewTasks(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bundle) {
		for i := range 200 {
			made := task.New(fmt.Sprintf("task-%03d", i), "job", time.Now())
			made.Status, made.Revision = task.Completed, 3
			b.stored(made)
		}
		if _, err := b.List(t.Context(), queue.ListOptions{Limit: 5}); err != nil {
			t.Fatal(err)
		}
		if got := b.cloud.Requests().Snapshot("producer").String(); got != "s3.GetObject=16 s3.ListObjectsV2=32" {
			t.Errorf("requests: %s", got)
		}
	})
}

func TestWhatIsNoTaskIsNotListed(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bundle) {
		b.submit(1, queue.ID("fine"))
		b.put(s3store.InboxKey("invalid"), "{")
		for _, key := range []string{"inbox/readme.txt", "inbox/0/", "inbox/0/x", "inbox/1/a b.json", "tasks/2/control\x01.json", "tasks/3/x.json.bak"} {
			b.put(key, "x")
		}
		if got, _ := b.list(queue.ListOptions{}); !slices.Equal(got, []string{"fine"}) {
			t.Errorf("listed %v", got)
		}
	})
}

// A page of odd keys that ends in one whose name is the beginning of a task's does not
// hide that task.
func TestOddKeysDoNotHideTasks(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bundle) {
		for i := range 999 {
			b.fill(fmt.Sprintf("inbox/%s/%04d", task.Shard("x-y"), i), nil)
		}
		b.fill("inbox/"+task.Shard("x-y")+"/x", nil) // the last key of the first page
		b.submit(1, queue.ID("x-y"))
		if got, _ := b.list(queue.ListOptions{}); !slices.Equal(got, []string{"x-y"}) {
			t.Errorf("listed %v", got)
		}
	})
}

func TestADamagedRecordIsAProblemOfItsOwn(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bundle) {
		for i := range 20 {
			b.submit(i, queue.ID(fmt.Sprintf("task-%02d", i)))
		}
		for _, id := range []string{"task-03", "task-04", "task-12", "task-19"} {
			b.put(s3store.TaskKey(id), "{")
		}
		problems := make(map[string]int)
		tasks := 0
		for o := (queue.ListOptions{Limit: 3}); ; {
			page, err := b.List(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			tasks += len(page.Tasks)
			for _, p := range page.Problems {
				problems[p.ID]++
				if !errors.Is(p.Err, queue.ErrDamaged) {
					t.Error(p.Err)
				}
			}
			if o.Cursor = page.Cursor; o.Cursor == "" {
				break
			}
		}
		want := map[string]int{"task-03": 1, "task-04": 1, "task-12": 1, "task-19": 1}
		if tasks != 16 || !maps.Equal(problems, want) {
			t.Errorf("%d tasks, problems %v", tasks, problems)
		}
		tasks, damaged := 0, 0
		for _, err := range b.All(t.Context(), queue.ListOptions{}) {
			if errors.Is(err, queue.ErrDamaged) {
				damaged++
			} else if err == nil {
				tasks++
			}
		}
		if tasks != 16 || damaged != 4 {
			t.Errorf("all: %d tasks, %d damaged", tasks, damaged)
		}
	})
}

func TestACursorThatIsNoneIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bundle) {
		for _, cursor := range []string{"a/b", "-", "task.json", strings.Repeat("x", 99)} {
			if _, err := b.List(t.Context(), queue.ListOptions{Cursor: cursor}); err == nil || !strings.Contains(err.Error(), "the cursor") {
				t.Errorf("%q: %v", cursor, err)
			}
		}
	})
}

func TestAListThatFailsIsAnError(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bundle) {
		b.submit(1)
		for _, operation := range []string{"ListObjectsV2", "GetObject"} {
			b.cloud.SetFault(func(r *cloud.Request) cloud.Fault {
				if r.From("producer") && r.Is(cloud.S3, operation) {
					return cloud.Fault{Status: 403, Code: "AccessDenied"}
				}
				return cloud.Fault{}
			})
			if page, err := b.List(t.Context(), queue.ListOptions{}); err == nil || len(page.Tasks) > 0 {
				t.Errorf("%s: %v, %v", operation, page, err)
			}
		}
	})
}

func TestAllStopsWhenTheCallerDoes(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bundle) {
		for i := range 200 {
			b.submit(i)
		}
		n := 0
		for _, err := range b.All(t.Context(), queue.ListOptions{}) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; n == 10 {
				break
			}
		}
		if reads := b.cloud.Requests().Snapshot("producer").Of(cloud.S3, "GetObject"); reads > 200 {
			t.Errorf("%d reads for ten tasks", reads)
		}
	})
}
