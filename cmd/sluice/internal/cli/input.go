package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/term"
)

// stdinName asks for standard input, which is not touched otherwise.
const stdinName = "-"

// readInput reads the value of --input: JSON, a file after @, or standard input.
func (a *app) readInput(ctx context.Context, value string) (json.RawMessage, error) {
	data, name := []byte(value), "--input"
	var err error
	file, isFile := strings.CutPrefix(value, "@")
	switch {
	case value == stdinName, file == stdinName:
		name = "standard input"
		if data, err = a.readStdin(ctx, "one JSON value"); err != nil {
			return nil, err
		}
	case isFile:
		if file == "" {
			return nil, usagef("--input @ names no file: write @prompt.json, or - for standard input")
		}
		name = file
		if data, err = os.ReadFile(file); err != nil {
			return nil, fmt.Errorf("read the input: %w", err)
		}
	}
	data = bytes.TrimPrefix(data, []byte("\uFEFF"))
	if err := checkJSON(data); err != nil {
		if name == "--input" {
			return nil, usagef("--input: %v; put JSON between single quotes, or give @FILE or -", err)
		}
		return nil, usagef("%s: %v", name, err)
	}
	return bytes.TrimSpace(data), nil
}

// readStdin reads all of standard input, until the context ends.
func (a *app) readStdin(ctx context.Context, what string) ([]byte, error) {
	a.announceStdin(what)
	type result struct {
		data []byte
		err  error
	}
	done := make(chan result, 1)
	go func() {
		data, err := io.ReadAll(a.stdin)
		done <- result{data, err}
	}()
	select {
	case r := <-done:
		if r.err != nil {
			return nil, fmt.Errorf("read standard input: %w", r.err)
		}
		return r.data, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// announceStdin says what is waited for, when it is a person that has to give it.
func (a *app) announceStdin(what string) {
	if term.IsTerminal(int(a.stdin.Fd())) {
		a.note("reading %s from the terminal, end it with Ctrl-D", what)
	}
}

// open opens a file to read, or standard input for "-". Size is that of a file, 0 if it is not
// known.
func (a *app) open(name, what string) (file *os.File, size int64, err error) {
	if name == stdinName {
		a.announceStdin(what)
		return a.stdin, 0, nil
	}
	file, err = os.Open(name)
	if err != nil {
		return nil, 0, fmt.Errorf("read %s: %w", what, err)
	}
	if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
		size = info.Size()
	}
	return file, size, nil
}

// line is one line of a file.
type line struct {
	number int
	text   []byte
	err    error
	// read is how many bytes were read up to its end.
	read int64
}

// lines reads a file by lines, of any length and without line ends, until the context
// ends. Blank lines are left out.
func lines(ctx context.Context, file io.Reader) <-chan line {
	ch := make(chan line)
	go func() {
		defer close(ch)
		r := bufio.NewReader(file)
		var read int64
		for number := 1; ; number++ {
			text, err := r.ReadBytes('\n')
			read += int64(len(text))
			if number == 1 {
				text = bytes.TrimPrefix(text, []byte("\uFEFF"))
			}
			l := line{number: number, text: bytes.TrimSpace(text), read: read}
			if err != nil && !errors.Is(err, io.EOF) {
				l.err = fmt.Errorf("read: %w", err)
			}
			if len(l.text) > 0 || l.err != nil {
				select {
				case ch <- l:
				case <-ctx.Done():
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	return ch
}

// anyJSON reads names that are given twice in inputs: they are a matter between producer
// and handler.
var anyJSON = jsontext.AllowDuplicateNames(true)

// checkJSON tells whether the data is one JSON value, and if not, where it ceases to be one.
func checkJSON(data []byte) error {
	if len(bytes.TrimSpace(data)) == 0 {
		return errors.New("it is empty, JSON is wanted (null for no input)")
	}
	dec := jsontext.NewDecoder(bytes.NewReader(data), anyJSON)
	if err := dec.SkipValue(); err != nil {
		return syntaxError(data, err)
	}
	end := dec.InputOffset()
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: something follows the JSON value, which must be all there is", position(data, end))
	}
	return nil
}

// syntaxError names the place where reading stopped.
func syntaxError(data []byte, err error) error {
	at := int64(len(data))
	if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		at, err = syntactic.ByteOffset, syntactic.Err
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: the JSON ends too early", position(data, int64(len(data))))
	}
	return fmt.Errorf("%s: not valid JSON, %s", position(data, at), strings.TrimPrefix(err.Error(), "jsontext: "))
}

// position words the place of a byte for a person with an editor.
func position(data []byte, at int64) string {
	before := data[:min(at, int64(len(data)))]
	row := 1 + bytes.Count(before, []byte("\n"))
	column := 1 + utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:])
	return fmt.Sprintf("line %d, column %d", row, column)
}
