package task_test

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/sluice-dev/sluice/shared/task"
)

// Reading never panics, and whatever is read is written so that it reads the
// same again.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		``, `{}`, `{}{}`, `null`, "\uFEFF{\"task_type\":\"a\"}", `{"id":"t1","task_type":"a"}`,
		`{"id":"t1","task_type":"a","input":{"a":1e400,"a":"\ud83d"},"x-é":[1],"\ud83d":2}`,
		`{"id":"t1","task_type":"a","status":"running","lease_id":"l","lease_expires_at":"2027-01-01T02:00:00.123456789+02:00","worker_id":"w"}`,
		`{"id":"t1","task_type":"a","tags":{"a":"b","c":"é"},"limits":[{"policy":"p","key":"k","cost":2},{"policy":"q"}]}`,
		`{"id":"t1","task_type":"a","throttled":{"policy":"p","until":"9999-12-31T23:59:59Z"},"replay_revision":3}`,
		`{"id":"t1","task_type":"a","input_ref":{"key":"payloads/t1/input","size":7,"sha256":"` + someSHA256 + `"}}`,
		`{"max_retries":-1}`, `{"max_retries":9007199254740993}`, `{"created_at":"0000-01-01T00:00:00Z"}`, "{\"id\":\"\xff\"}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if record, err := task.Decode(data); err == nil {
			record.ReplayRevision = 0 // no record holds it
			encoded := record.Encode()
			back := mustDecode(t, encoded)
			if !reflect.DeepEqual(back, record) || !bytes.Equal(back.Encode(), encoded) {
				t.Errorf("%s reads back as %s", encoded, back.Encode())
			}
		}
		if submission, err := task.DecodeSubmission(data, "t1", epoch); err == nil {
			back, err := task.DecodeSubmission(submission.EncodeSubmission(), "t1", epoch)
			if err != nil || !reflect.DeepEqual(back, submission) {
				t.Errorf("%s reads back as %s, %v", submission.EncodeSubmission(), back.EncodeSubmission(), err)
			}
			mustDecode(t, submission.Encode()) // its first record
		}
	})
}
