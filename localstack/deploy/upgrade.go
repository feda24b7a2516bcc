package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// upgrade deploys a second version over the first: binaries that behave alike and are not the same, and a
// higher release.
func (d *deployment) upgrade(ctx context.Context) error {
	assets := filepath.Join(d.dir, "assets")
	if err := d.rebuild(assets); err != nil {
		return fmt.Errorf("making other binaries: %w", err)
	}
	assembly := filepath.Join(d.dir, "cdk.out.upgrade")
	release := strconv.FormatInt(time.Now().Unix()+1, 10)
	if err := d.synth(ctx, assembly, assets, "-c", "release="+release); err != nil {
		return err
	}

	return d.cdk(ctx, "deploy", d.Stack, "--app", assembly, "--require-approval", "never")
}

// rebuild copies the binaries and adds a few bytes behind the end of each, where nobody looks.
func (d *deployment) rebuild(assets string) error {
	binaries, err := filepath.Glob(filepath.Join(d.Assets, "*", "bootstrap"))
	if err != nil {
		return err
	}
	for _, binary := range binaries {
		folder := filepath.Join(assets, filepath.Base(filepath.Dir(binary)))
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		data, err := os.ReadFile(binary)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, "bootstrap"), append(data, "the second version"...), 0o755); err != nil { //nolint:gosec // Lambda starts it
			return err
		}
	}

	return nil
}

// writeUpgradeScript writes the script by which the command can have the second version deployed.
func (d *deployment) writeUpgradeScript() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("finding this program: %w", err)
	}
	root, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the working folder: %w", err)
	}
	line := []string{
		self, "-upgrade", d.dir, "-target", d.Target, "-cdk", d.CDK, "-app", d.App, "-stack", d.Stack,
		"-assets", d.Assets, "-architecture", d.Architecture,
	}
	for i, word := range line {
		line[i] = quoted(word)
	}
	script := filepath.Join(d.dir, "upgrade.sh")
	text := fmt.Sprintf("#!/bin/sh\ncd %s || exit\nexec %s\n", quoted(root), strings.Join(line, " "))
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil { //nolint:gosec // it is there to be executed
		return "", fmt.Errorf("writing the upgrade script: %w", err)
	}

	return script, nil
}

// quoted writes a word so that a shell reads it as it is.
func quoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }
