package cli

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestJournalThatCannotBeWrittenStopsTheSubmits(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal")
	j, err := openJournal(path, "tasks", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.close(); err != nil {
		t.Fatal(err)
	}
	if j.file, err = os.Open(path); err != nil { // to read only
		t.Fatal(err)
	}
	defer j.file.Close()
	var unwritten *journalError
	for range 2 {
		if err := j.choose(j.meet([]byte("{}")), 1, "a"); !errors.As(err, &unwritten) || !affectsAll(err) {
			t.Errorf("choose: %v, want an error that stops all submits", err)
		}
	}
}

func TestJournalKnowsEqualLinesByTheirNumber(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal")
	for run := range 2 {
		j, err := openJournal(path, "tasks", map[string]string{"A": "1"})
		if err != nil {
			t.Fatal(err)
		}
		for i, id := range []string{"first", "second"} {
			e := j.meet([]byte(`{"task_type":"a"}`))
			switch {
			case run == 0:
				if err := errors.Join(j.choose(e, i+1, id), j.finish(e, i+1, id)); err != nil {
					t.Fatal(err)
				}
			case e.id != id || !e.done || !e.earlier:
				t.Errorf("the entry of line %d is %+v, want the id %s, done by an earlier run", i+1, e, id)
			}
		}
		if err := j.close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := openJournal(path, "tasks", map[string]string{"A": "2"}); err == nil {
		t.Error("a journal was opened for other variables")
	}
}
