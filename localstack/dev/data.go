package dev

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/localstack/cloud/lambdaemu"
	"github.com/sluice-dev/sluice/localstack/filelock"
	"github.com/sluice-dev/sluice/localstack/stack"
)

const (
	// dataFile is what a cloud is saved to, in its folder.
	dataFile = "cloud.zip"
	lockFile = "lock"
	// saveEvery is the pause between two saves of a cloud that changes. With much data it
	// is longer: saving takes a tenth of the time at most.
	saveEvery   = time.Second
	savingShare = 10
)

// data keeps a cloud in a folder. Use [openData].
type data struct {
	cloud *cloud.Cloud
	path  string
	lock  *os.File
	// loaded tells that there was something to go on with.
	loaded bool
	log    io.Writer

	stop chan struct{}
	done chan struct{}
}

// openData takes a folder, which is made if need be, and loads what an earlier run left
// there. The cloud's schedules do not fire until it is resumed.
func openData(folder string, c *cloud.Cloud, log io.Writer) (_ *data, err error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder for the data: %w", err)
	}
	d := &data{cloud: c, path: filepath.Join(folder, dataFile), log: log}
	if d.lock, err = os.OpenFile(filepath.Join(folder, lockFile), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, fmt.Errorf("take the folder for the data: %w", err)
	}
	defer func() {
		if err != nil {
			_ = d.lock.Close() // the first error says it
		}
	}()
	if err := filelock.Lock(d.lock); err != nil {
		return nil, fmt.Errorf("the data in %s: %w", folder, err)
	}
	if d.loaded, err = d.load(); err != nil {
		return nil, fmt.Errorf("the data in %s can't be gone on with (move %s away to begin anew): %w", folder, dataFile, err)
	}
	return d, nil
}

// load reports whether there was anything to load.
func (d *data) load() (bool, error) {
	file, err := os.Open(d.path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return false, err
	}
	return true, d.cloud.Load(file, info.Size())
}

// keep saves the cloud whenever something has happened, until close.
func (d *data) keep() {
	d.stop, d.done = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(d.done)
		var saved uint64
		failed := false
		for pause := saveEvery; ; {
			select {
			case <-d.stop:
				return
			case <-time.After(pause):
			}
			now := d.cloud.Activity()
			if now == saved {
				continue
			}
			started := time.Now()
			err := d.save()
			switch {
			case err == nil:
				saved = now
			case !failed:
				fmt.Fprintf(d.log, "sluice dev  %v; trying again\n", err)
			}
			failed = err != nil
			pause = max(saveEvery, savingShare*time.Since(started))
		}
	}()
}

// save replaces the file by one of the present, or leaves it as it is.
func (d *data) save() error {
	unfinished := d.path + ".new"
	if err := d.write(unfinished); err != nil {
		return errors.Join(fmt.Errorf("save the data to %s: %w", d.path, err), os.Remove(unfinished))
	}
	if err := os.Rename(unfinished, d.path); err != nil {
		return fmt.Errorf("save the data to %s: %w", d.path, err)
	}
	return nil
}

func (d *data) write(path string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(d.cloud.Save(file), file.Sync(), file.Close())
}

// close saves the cloud, which has ended, for the last time and gives the folder back.
func (d *data) close() error {
	var err error
	if d.stop != nil {
		close(d.stop)
		<-d.done
		err = d.save()
	}
	return errors.Join(err, d.lock.Close())
}

// redriveBatch is how many tasks one invocation looks at after a restart.
const redriveBatch = 10

// redrive has the claim function look at every live task: of those that an earlier run left,
// some had been handed to Lambda and were not run, and Lambda's queue is not kept.
func redrive(ctx context.Context, s *stack.Stack) error {
	store := s.Store("dev")
	var ids []string
	for after, more := "", true; more; {
		entries, goesOn, err := store.ScanInbox(ctx, after, 1000)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if after = e.Key; e.ID != "" {
				ids = append(ids, e.ID)
			}
		}
		more = goesOn
	}
	for len(ids) > 0 {
		n := min(redriveBatch, len(ids))
		payload, err := json.Marshal(map[string][]string{"task_ids": ids[:n]})
		if err != nil {
			return err
		}
		if _, err := s.Cloud.Lambda().InvokeAsync(s.Function, payload, lambdaemu.InvokeOptions{}); err != nil {
			return err
		}
		ids = ids[n:]
	}
	return nil
}
