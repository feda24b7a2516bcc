package sluice

import (
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// currentRelease is the release of what is being deployed when nobody says: the commit time of the
// repository that the CDK app runs in, in Unix seconds, so that two deployments of one commit have one
// release and an older commit an older one. With changes that are not committed, or without a repository,
// it is the present.
func currentRelease(now time.Time) int64 {
	changed, err := git("status", "--porcelain", "--untracked-files=no")
	if err != nil || changed != "" {
		return now.Unix()
	}
	committed, err := git("log", "-1", "--format=%ct")
	if err != nil {
		return now.Unix()
	}
	release, err := strconv.ParseInt(committed, 10, 64)
	if err != nil || release <= 0 {
		return now.Unix()
	}

	return release
}

func git(arguments ...string) (string, error) {
	arguments = append([]string{"--no-optional-locks"}, arguments...)
	out, err := exec.Command("git", arguments...).Output() //nolint:noctx // a synthesis has no context, and git answers at once

	return strings.TrimSpace(string(out)), err
}
