package cli

import (
	"context"
	"strings"
	"time"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/sluice-dev/sluice/shared/task"
)

func (a *app) newHistoryCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "history ID",
		Short: "Show what happened to a task, version by version",
		Long: `Show every retained version of a task's record, oldest first, with what led to it
and how long after the creation it was written. With --json an array of
{"version", "at", "status", "text"} is printed.`,
		Example: `  sluice history 0197f0c2-5d3a-7c61-9a51-7b1de2f0a9c4
  sluice history order-1001 --json | jq -r '.[] | [.at, .text] | @tsv'`,
		Args: wantsID,
		RunE: func(cmd *cobra.Command, args []string) error { return a.history(cmd.Context(), args[0]) },
	}
}

func (a *app) history(ctx context.Context, id string) error {
	q, err := a.target.queue(ctx)
	if err != nil {
		return err
	}
	entries, err := q.History(ctx, id)
	if err != nil {
		return err
	}
	if a.json {
		doc, err := jsonv2.Marshal(entries, jsontext.AllowInvalidUTF8(true))
		if err != nil {
			return err
		}
		a.printJSON(doc)
		return nil
	}
	a.printHistory(entries)
	return nil
}

// printHistory writes an entry per line, the times in a column of their own as far as that
// can be: long error texts push theirs out.
func (a *app) printHistory(entries []task.Entry) {
	const widest = 76
	texts := make([]string, len(entries))
	column := 0
	for i, e := range entries {
		first, _, more := strings.Cut(e.String(), "\n")
		if texts[i] = inline(strings.TrimSuffix(first, "\r")); more {
			texts[i] += "…"
		}
		if n := utf8.RuneCountInString(texts[i]); n <= widest {
			column = max(column, n)
		}
	}
	now := time.Now()
	for i, e := range entries {
		at := both(now, e.At)
		if i > 0 {
			at = "+" + span(max(e.At.UnixMilli()-entries[0].At.UnixMilli(), 0))
		}
		text := pad(texts[i], column)
		a.out.printf("%s%s  %s\n", a.paintStatus(e.Status, texts[i]), text[len(texts[i]):], a.out.dim(at))
	}
}
