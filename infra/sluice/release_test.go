package sluice

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

func TestTheReleaseIsThatOfTheCommitOrElseThePresent(t *testing.T) { //nolint:paralleltest // changes its folder
	committed := time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)
	now := committed.Add(48 * time.Hour)
	t.Chdir(t.TempDir())
	for name, value := range map[string]string{
		"GIT_CEILING_DIRECTORIES": filepath.Dir(must(os.Getwd())), "GIT_CONFIG_GLOBAL": os.DevNull, "GIT_CONFIG_NOSYSTEM": "1",
		"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.com", "GIT_COMMITTER_NAME": "c", "GIT_COMMITTER_EMAIL": "c@example.com",
		"GIT_COMMITTER_DATE": committed.Format(time.RFC3339),
	} {
		t.Setenv(name, value)
	}
	expect := func(what string, want time.Time) {
		t.Helper()
		if got := currentRelease(now); got != want.Unix() {
			t.Errorf("%s: %d, want %d", what, got, want.Unix())
		}
	}
	run := func(arguments ...string) {
		t.Helper()
		if out, err := exec.Command("git", arguments...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", arguments, err, out)
		}
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile("policies.go", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	expect("without a repository", now)
	run("init", "--quiet")
	expect("before the first commit", now)
	write("10 per second")
	run("add", "policies.go")
	run("commit", "--quiet", "--message", "policies")
	expect("at a commit", committed)
	write("20 per second")
	expect("with changes that are not committed", now)
	run("checkout", "--quiet", "policies.go")
	expect("at the commit again", committed)
}

func must(dir string, err error) string {
	if err != nil {
		panic(err)
	}

	return dir
}
