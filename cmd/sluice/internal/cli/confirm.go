package cli

import (
	"bufio"
	"context"
	"errors"
	"strings"

	"golang.org/x/term"
)

// errDeclined is the error of a command that was called off at its question.
var errDeclined = errors.New("called off, nothing was done")

// canAsk tells whether a person is there to answer a question.
func (a *app) canAsk() bool { return term.IsTerminal(int(a.stdin.Fd())) }

// confirm asks a question that only yes answers with yes. The error is [errDeclined] for
// everything else, the end of the input included.
func (a *app) confirm(ctx context.Context, question string) error {
	a.err.clearProgress()
	a.err.printf("%s [y/N] ", inline(question))
	_ = a.err.flush()
	answer := make(chan string, 1)
	go func() {
		text, _ := bufio.NewReader(a.stdin).ReadString('\n') // what can't be read is no yes
		answer <- text
	}()
	select {
	case text := <-answer:
		switch strings.ToLower(strings.TrimSpace(text)) {
		case "y", "yes":
			return nil
		}
		return errDeclined
	case <-ctx.Done():
		a.err.printf("\n")
		_ = a.err.flush()
		return ctx.Err()
	}
}
