package dynamodbemu

import (
	"fmt"
	"strings"
)

// maxExpressionBytes is the longest expression accepted.
const maxExpressionBytes = 4096

type tokenKind int

const (
	tokenEOF        tokenKind = iota
	tokenIdentifier           // a name, keyword or function
	tokenName                 // #placeholder
	tokenValue                // :placeholder
	tokenInteger
	tokenSymbol // punctuation and operators
)

// A token is a piece of an expression, with its place in the text.
type token struct {
	kind       tokenKind
	text       string
	start, end int
}

// is tells whether the token is the keyword or symbol given. Keywords are written
// in any case.
func (t token) is(text string) bool {
	switch t.kind {
	case tokenIdentifier:
		return strings.EqualFold(t.text, text)
	case tokenSymbol:
		return t.text == text
	default:
		return false
	}
}

// symbols are the operators and punctuation, longer ones first.
var symbols = []string{"<=", ">=", "<>", "<", ">", "=", "(", ")", "[", "]", ",", ".", "+", "-"}

// tokenize cuts an expression into tokens, ended by one of kind tokenEOF.
func tokenize(text string) ([]token, error) {
	var tokens []token
	for pos := 0; ; {
		for pos < len(text) && strings.IndexByte(" \t\r\n", text[pos]) >= 0 {
			pos++
		}
		if pos == len(text) {
			return append(tokens, token{kind: tokenEOF, text: "<EOF>", start: pos, end: pos}), nil
		}
		t := nextToken(text, pos)
		if t.end == pos {
			bad := token{text: text[pos : pos+1], start: pos, end: pos + 1}
			return nil, syntaxError(text, append(tokens, bad), len(tokens))
		}
		tokens = append(tokens, t)
		pos = t.end
	}
}

// nextToken reads the token at pos. An empty one means that none begins there.
func nextToken(text string, pos int) token {
	t := token{start: pos, end: pos}
	c := text[pos]
	switch {
	case isLetter(c):
		t.kind, t.end = tokenIdentifier, wordEnd(text, pos)
	case isDigit(c):
		for t.kind = tokenInteger; t.end < len(text) && isDigit(text[t.end]); t.end++ {
		}
	case c == '#' || c == ':':
		if end := wordEnd(text, pos+1); end > pos+1 {
			t.kind, t.end = tokenName, end
			if c == ':' {
				t.kind = tokenValue
			}
		}
	default:
		for _, s := range symbols {
			if strings.HasPrefix(text[pos:], s) {
				t.kind, t.end = tokenSymbol, pos+len(s)
				break
			}
		}
	}
	t.text = text[t.start:t.end]
	return t
}

func wordEnd(text string, pos int) int {
	for pos < len(text) && (isLetter(text[pos]) || isDigit(text[pos]) || text[pos] == '_') {
		pos++
	}
	return pos
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }

// syntaxError names the token at index at and shows it between its neighbors.
func syntaxError(text string, tokens []token, at int) error {
	near := text[tokens[max(at-1, 0)].start:tokens[min(at+1, len(tokens)-1)].end]
	return fmt.Errorf("Syntax error; token: %q, near: %q", tokens[at].text, strings.TrimSpace(near)) //nolint:staticcheck // DynamoDB's wording
}
