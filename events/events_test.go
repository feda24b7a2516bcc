// Package events holds sample events. This test keeps them true: real in form, and each explained.
package events

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"github.com/sluice-dev/sluice/shared/s3store"
)

func TestEachSampleIsValidJSONAndExplainedInTheREADME(t *testing.T) {
	t.Parallel()
	readme := string(read(t, "README.md"))
	files, err := filepath.Glob("*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no samples: %v", err)
	}
	for _, file := range files {
		if !json.Valid(read(t, file)) {
			t.Errorf("%s is no JSON", file)
		}
		if !strings.Contains(readme, "| ["+file+"]("+file+") |") {
			t.Errorf("README.md has no line for %s", file)
		}
	}
}

func TestS3SamplesNameInboxObjectsByTheirShard(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]struct{ tasks, others int }{
		"s3-put.json":            {1, 0},
		"s3-removed.json":        {1, 0},
		"s3-one-bad-of-ten.json": {9, 1},
		"s3-no-records.json":     {0, 0},
	} {
		var event events.S3Event
		if err := json.Unmarshal(read(t, file), &event); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		tasks, others := 0, 0
		for _, record := range event.Records {
			if _, err := s3store.InboxID(record.S3.Object.URLDecodedKey); err == nil {
				tasks++
			} else {
				others++
			}
		}
		if tasks != want.tasks || others != want.others {
			t.Errorf("%s: %d tasks and %d other keys, want %+v", file, tasks, others, want)
		}
	}
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}

	return data
}
