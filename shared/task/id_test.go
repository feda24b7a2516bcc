package task_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sluice-dev/sluice/shared/task"
)

func TestIDGrammar(t *testing.T) {
	t.Parallel()
	longest := strings.Repeat("a", task.MaxIDBytes)
	for _, good := range []string{"a", "0", "A-_9", longest, "0196f0c1-7b3a-7000-8000-000000000000", task.DeriveID("s", "k")} {
		if err := task.ValidateID(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", "-a", "_a", longest + "a", "a.b", "a/b", "a b", "a+b", "é", "a\n", "\n", "a%20", ".."} {
		if err := task.ValidateID(bad); err == nil || !strings.Contains(err.Error(), "use 1 to 52 of") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestTypeGrammar(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"call_llm", "http.request", "_x", "a:b/c-d", strings.Repeat("t", 128)} {
		if err := task.ValidateType(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", ".a", "a b", "a\n", "é", strings.Repeat("t", 129)} {
		if err := task.ValidateType(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// Producers in other languages compute both: the values must never change.
func TestShardAndDerivedIDAreFixed(t *testing.T) {
	t.Parallel()
	// printf %s t1 | sha256sum
	for id, want := range map[string]string{"t1": "6", "a": "c", "task-0": "6"} {
		if got := task.Shard(id); got != want {
			t.Errorf("Shard(%q) = %s, want %s", id, got, want)
		}
	}
	for _, tt := range []struct{ scope, key, want string }{
		{"mail", "order-1", "kll7ijud2rehamegbj9n9hqsh8ofgcssi6o006e5f"}, {"", "", "kltan1td1g45nltsclt5se2j61s6va7i2nbshqjf5"}, {"é", "ключ", "kharbqel8rqute9m08tnsp1un09uo2uu1i4rkkn7n"},
	} {
		if got := task.DeriveID(tt.scope, tt.key); got != tt.want {
			t.Errorf("DeriveID(%q, %q) = %s, want %s", tt.scope, tt.key, got, tt.want)
		}
	}
	if task.DeriveID("a", "bc") == task.DeriveID("ab", "c") {
		t.Error("scope and key run into each other")
	}
}

func TestEveryIDHasOneOfSixteenShards(t *testing.T) {
	t.Parallel()
	shards := task.Shards()
	if len(shards) != 16 {
		t.Fatalf("%d shards", len(shards))
	}
	count := map[string]int{}
	for i := range 1600 {
		count[task.Shard(task.DeriveID("s", strings.Repeat("x", i)))]++
	}
	for _, s := range shards {
		if count[s] == 0 {
			t.Errorf("shard %s is never used", s)
		}
	}
	if len(count) != 16 {
		t.Errorf("%d shards are used", len(count))
	}
}

func TestIDTimeReadsTheMillisecondOfAUUIDv7(t *testing.T) {
	t.Parallel()
	got, ok := task.IDTime("01a2ce8b-d405-7abc-8def-0123456789ab")
	if want := epoch.Add(5 * time.Millisecond); !ok || !got.Equal(want) || got.Location() != time.UTC {
		t.Errorf("got %v, %v, want %v", got, ok, want)
	}
	for _, other := range []string{
		"", "t1", task.DeriveID("s", "k"),
		"01a2ce8b-d405-4abc-8def-0123456789ab", // version 4
		"01A2CE8B-D405-7ABC-8DEF-0123456789AB", // another id, it is not written so
		"01a2ce8bd4057abc8def0123456789ab",
		"urn:uuid:01a2ce8b-d405-7abc-8def-0123456789ab",
		"{01a2ce8b-d405-7abc-8def-0123456789ab}",
	} {
		if at, ok := task.IDTime(other); ok {
			t.Errorf("%q was made at %v", other, at)
		}
	}
}
