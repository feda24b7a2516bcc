package cli

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/sluice-dev/sluice/localstack/filelock"
)

// journal is the memory of submit-many that outlives it: which id each line got, written down
// before the line is submitted, and which lines are known to have been accepted. A run that
// ended anywhere is gone on with by reading it.
//
// A line is known by its text and by how many lines of the same text are before it, so that
// lines may be added, removed and moved between two runs. The file has a JSON object on each
// line: the head, then {"line", "sha256", "nth", "id"} for every id that was chosen and
// {"done": id} for every line that was accepted. What a crash cut off at its end is not
// missed: nothing was submitted yet that is not written down whole.
type journal struct {
	file *os.File

	mu      sync.Mutex
	entries map[entryKey]*entry
	// met counts the lines of this run by their text.
	met map[[sha256.Size]byte]int
	// written is how many bytes the file has, broken why it can't have more.
	written int64
	broken  error

	syncing sync.Mutex
	// synced is how many of them the disk has for sure.
	synced int64
}

type entryKey struct {
	text [sha256.Size]byte
	nth  int
}

// entry is what the journal knows of a line.
type entry struct {
	key entryKey
	// id is empty while none was chosen.
	id   string
	done bool
	// earlier tells that an earlier run chose the id.
	earlier bool
}

const journalVersion = 1

// journalHead is the first line of a journal.
type journalHead struct {
	Journal   int       `json:"journal"`
	Bucket    string    `json:"bucket"`
	Vars      string    `json:"vars_sha256"`
	CreatedAt time.Time `json:"created_at"`
}

// journalLine is every other line.
type journalLine struct {
	Line   int    `json:"line,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
	Nth    int    `json:"nth,omitempty"`
	ID     string `json:"id,omitempty"`
	Done   string `json:"done,omitempty"`
}

// openJournal opens the journal of a file, or begins it. It is refused for another bucket and
// for other variables than it was begun with: the same line would be another task then.
func openJournal(path, bucket string, vars map[string]string) (*journal, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("the journal %s: it is no ordinary file", path)
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the journal: %w", err)
	}
	j := &journal{file: file, entries: make(map[entryKey]*entry), met: make(map[[sha256.Size]byte]int)}
	head := journalHead{Journal: journalVersion, Bucket: bucket, Vars: hashOf(vars), CreatedAt: time.Now().UTC()}
	if err := j.start(path, head); err != nil {
		_ = file.Close() // nothing was written that is needed
		return nil, fmt.Errorf("the journal %s: %w", path, err)
	}
	return j, nil
}

func hashOf(vars map[string]string) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		fmt.Fprintf(h, "%d %s=%d %s\n", len(name), name, len(vars[name]), vars[name])
	}
	return hex.EncodeToString(h.Sum(nil))
}

func (j *journal) start(path string, head journalHead) error {
	if err := filelock.Lock(j.file); err != nil {
		return err
	}
	data, err := io.ReadAll(j.file)
	if err != nil {
		return err
	}
	if len(data) == 0 {
		return j.begin(path, head)
	}
	whole := data[:bytes.LastIndexByte(data, '\n')+1]
	first, rest, _ := bytes.Cut(whole, []byte("\n"))
	var had journalHead
	switch {
	case jsonv2.Unmarshal(first, &had, jsonv2.RejectUnknownMembers(true)) != nil || had.Journal == 0:
		return errors.New("it is no journal of submit-many: name a file that is one, or does not exist")
	case had.Journal != journalVersion:
		return fmt.Errorf("it was written by another version of this command (%d, this one knows %d)", had.Journal, journalVersion)
	case had.Bucket != head.Bucket:
		return fmt.Errorf("it belongs to submits to the bucket %s, not %s: use a journal for each", had.Bucket, head.Bucket)
	case had.Vars != head.Vars:
		return errors.New("it was begun with other values of --var, which make the same lines other tasks: give the same ones")
	}
	if err := j.read(rest); err != nil {
		return err
	}
	// What a crash left unfinished at the end goes.
	if err := j.file.Truncate(int64(len(whole))); err != nil {
		return err
	}
	j.written, j.synced = int64(len(whole)), int64(len(whole))
	_, err = j.file.Seek(j.written, io.SeekStart)
	return err
}

// begin writes the head of a new journal, and makes sure that the disk has the file.
func (j *journal) begin(path string, head journalHead) error {
	end, err := j.append(head)
	if err == nil {
		err = j.sync(end)
	}
	if err != nil {
		return err
	}
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer folder.Close()
	_ = folder.Sync() // not every file system can
	return nil
}

func (j *journal) read(data []byte) error {
	byID := make(map[string]*entry)
	const headLines = 1
	number := headLines
	for text := range bytes.Lines(data) {
		number++
		var l journalLine
		if err := jsonv2.Unmarshal(text, &l, jsonv2.RejectUnknownMembers(true)); err != nil {
			return fmt.Errorf("line %d is damaged: %w", number, err)
		}
		if l.Done != "" {
			if e := byID[l.Done]; e != nil {
				e.done = true
			}
			continue
		}
		e := &entry{key: entryKey{nth: l.Nth}, id: l.ID, earlier: true}
		if n, err := hex.Decode(e.key.text[:], []byte(l.SHA256)); err != nil || n != sha256.Size || l.ID == "" {
			return fmt.Errorf("line %d is damaged: it names no line and id", number)
		}
		j.entries[e.key] = e
		byID[e.id] = e
	}
	return nil
}

// meet finds the entry of a line, or makes it. Lines are met in the order of the file.
func (j *journal) meet(text []byte) *entry {
	sum := sha256.Sum256(text)
	j.mu.Lock()
	defer j.mu.Unlock()
	key := entryKey{sum, j.met[sum]}
	j.met[sum]++
	e := j.entries[key]
	if e == nil {
		e = &entry{key: key}
		j.entries[key] = e
	}
	return e
}

// choose writes down that the line gets the id, and returns once the disk has it.
func (j *journal) choose(e *entry, line int, id string) error {
	e.id = id
	end, err := j.append(j.chosen(e, line))
	if err == nil {
		err = j.sync(end)
	}
	if err != nil {
		return &journalError{err}
	}
	return nil
}

// finish writes down that the line was accepted under the id. Should that be lost, the next
// run finds out.
func (j *journal) finish(e *entry, line int, id string) error {
	e.done = true
	var err error
	if e.id == "" { // its key chose it
		e.id = id
		_, err = j.append(j.chosen(e, line))
	}
	if err == nil {
		_, err = j.append(journalLine{Done: e.id})
	}
	if err != nil {
		return &journalError{err}
	}
	return nil
}

func (j *journal) chosen(e *entry, line int) journalLine {
	return journalLine{Line: line, SHA256: hex.EncodeToString(e.key.text[:]), Nth: e.key.nth, ID: e.id}
}

// journalError says that the journal can't be written, so that nothing more can be submitted.
type journalError struct{ err error }

func (e *journalError) Error() string { return fmt.Sprintf("write the journal: %v", e.err) }
func (e *journalError) Unwrap() error { return e.err }

// append writes a line and returns where it ends.
func (j *journal) append(v any) (end int64, err error) {
	data, err := jsonv2.Marshal(v)
	if err != nil {
		return 0, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.broken != nil { // another line behind half a one would make it unreadable
		return 0, j.broken
	}
	n, err := j.file.Write(append(data, '\n'))
	j.written += int64(n)
	j.broken = err
	return j.written, err
}

// sync waits until the disk has the file up to a place. What others have written meanwhile
// goes along, so that many lines share the wait.
func (j *journal) sync(upTo int64) error {
	j.syncing.Lock()
	defer j.syncing.Unlock()
	if j.synced >= upTo {
		return nil
	}
	j.mu.Lock()
	written := j.written
	j.mu.Unlock()
	if err := j.file.Sync(); err != nil {
		return err
	}
	j.synced = written
	return nil
}

func (j *journal) close() error {
	if err := j.file.Sync(); err != nil {
		_ = j.file.Close() // the first error says it
		return &journalError{err}
	}
	return j.file.Close()
}
