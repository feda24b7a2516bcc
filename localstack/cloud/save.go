package cloud

import (
	"archive/zip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"
)

// saveFormat is the version of what Save writes.
const saveFormat = 1

// savedHead says what a saved cloud is.
type savedHead struct {
	Format    int       `json:"format"`
	Region    string    `json:"region"`
	AccountID string    `json:"account_id"`
	SavedAt   time.Time `json:"saved_at"`
}

const headName = "cloud.json"

// keeper is a service that can be saved.
type keeper interface {
	Save(w io.Writer) error
	Load(r io.Reader) error
}

// keepers are the services that hold data, by the name of their file. Functions
// are not among them, nor are events that wait to be delivered.
func (c *Cloud) keepers() []struct {
	name string
	keeper
} {
	return []struct {
		name string
		keeper
	}{
		{"scheduler.json", c.scheduler}, {"s3.json", c.s3}, {"dynamodb.json", c.dynamodb}, {"sqs.json", c.sqs},
	}
}

// Save writes what the cloud holds: objects with their versions, schedules, items,
// messages. Each service is written as of one moment, one after the other, while
// the cloud goes on. What Lambda has accepted and not yet run is not part of it.
func (c *Cloud) Save(w io.Writer) error {
	archive := zip.NewWriter(w)
	create := func(name string) (io.Writer, error) {
		return archive.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store, Modified: time.Now()})
	}
	file, err := create(headName)
	if err != nil {
		return fmt.Errorf("save the cloud: %w", err)
	}
	head := savedHead{Format: saveFormat, Region: c.opts.Region, AccountID: c.opts.AccountID, SavedAt: time.Now().UTC()}
	if err := json.NewEncoder(file).Encode(head); err != nil {
		return fmt.Errorf("save the cloud: %w", err)
	}
	for _, k := range c.keepers() {
		if file, err = create(k.name); err != nil {
			return fmt.Errorf("save the cloud: %w", err)
		}
		if err := k.Save(file); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return fmt.Errorf("save the cloud: %w", err)
	}
	return nil
}

// Load replaces what the cloud holds by what [Cloud.Save] wrote, size bytes of it.
// No schedule fires until [Cloud.Resume], so that functions can be registered
// first. Nothing is changed when the head is of another region, account or
// format, or when a file is missing.
func (c *Cloud) Load(r io.ReaderAt, size int64) error {
	archive, err := zip.NewReader(r, size)
	if err != nil {
		return fmt.Errorf("load the cloud: %w", err)
	}
	head, err := readHead(archive)
	switch {
	case err != nil:
		return fmt.Errorf("load the cloud: %w", err)
	case head.Format != saveFormat:
		return fmt.Errorf("load the cloud: it was saved by another version (format %d, this one knows %d)", head.Format, saveFormat)
	case head.Region != c.opts.Region || head.AccountID != c.opts.AccountID:
		return fmt.Errorf("load the cloud: it was saved by account %s in %s, this one is %s in %s", head.AccountID, head.Region, c.opts.AccountID, c.opts.Region)
	}
	for _, k := range c.keepers() {
		if _, err := fs.Stat(archive, k.name); err != nil {
			return fmt.Errorf("load the cloud: %w", err)
		}
	}
	for _, k := range c.keepers() {
		file, err := archive.Open(k.name)
		if err != nil {
			return fmt.Errorf("load the cloud: %w", err)
		}
		if err := errors.Join(k.Load(file), file.Close()); err != nil {
			return err
		}
	}
	return nil
}

func readHead(archive *zip.Reader) (head savedHead, err error) {
	file, err := archive.Open(headName)
	if err != nil {
		return head, err
	}
	defer file.Close()
	return head, json.NewDecoder(file).Decode(&head)
}

// Resume lets schedules fire after a [Cloud.Load].
func (c *Cloud) Resume() { c.scheduler.Resume() }

// Activity is a number that grows whenever something may have changed what
// [Cloud.Save] would write.
func (c *Cloud) Activity() uint64 { return c.activity.Load() }
