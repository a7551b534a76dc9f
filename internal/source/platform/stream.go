package platform

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// Stream reads JSON as it comes, one value after another, and holds one of them at most. Skipped values are not held, however large
// they are; their brackets are counted, and nothing else of them is checked.
type Stream struct {
	from     io.Reader
	buf      [32 << 10]byte
	pos, end int
	value    []byte // the last one
}

// NewStream returns one of what from says.
func NewStream(from io.Reader) *Stream { return &Stream{from: from} }

// maxMember is how many bytes the name of a member may have. Members with longer names are left out.
const maxMember = 1 << 10

// fill reads more.
func (s *Stream) fill() error {
	for range 100 {
		n, err := s.from.Read(s.buf[:])
		if s.pos, s.end = 0, n; n > 0 {
			return nil // an error comes again
		}
		if err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}

// next returns the first byte that is not a space. It stays.
func (s *Stream) next() (byte, error) {
	for {
		for ; s.pos < s.end; s.pos++ {
			if c := s.buf[s.pos]; c != ' ' && c != '\n' && c != '\r' && c != '\t' {
				return c, nil
			}
		}
		if err := s.fill(); err != nil {
			return 0, err
		}
	}
}

// Peek returns the first byte of the next value: '{', '[', '"', or another one. At the end it returns io.EOF.
func (s *Stream) Peek() (byte, error) { return s.next() }

// more returns the same as next. The end is an error.
func (s *Stream) more() (byte, error) {
	c, err := s.next()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return c, err
}

// Object reads an object: each is called for each member, and reads its value. For null it is not called. long counts members that
// were left out for their names.
func (s *Stream) Object(each func(name string) error) (long int, err error) {
	null, err := s.open('{', "an object")
	if err != nil || null {
		return 0, err
	}
	for first := true; ; first = false {
		done, err := s.item('}', first)
		if err != nil || done {
			return long, err
		}
		text, ok, err := s.Value(maxMember)
		if err != nil {
			return long, err
		}
		var name string
		if ok {
			if err := json.Unmarshal(text, &name); err != nil {
				return long, err
			}
		}
		if err := s.expect(':'); err != nil {
			return long, err
		}
		if !ok {
			long++
			err = s.Skip()
		} else {
			err = each(name)
		}
		if err != nil {
			return long, err
		}
	}
}

// Array reads a list: each is called for each element, and reads it. For null it is not called.
func (s *Stream) Array(each func() error) error {
	null, err := s.open('[', "an array")
	if err != nil || null {
		return err
	}
	for first := true; ; first = false {
		done, err := s.item(']', first)
		if err != nil || done {
			return err
		}
		if err := each(); err != nil {
			return err
		}
	}
}

// open takes an opening bracket, or null.
func (s *Stream) open(bracket byte, what string) (null bool, err error) {
	c, err := s.next()
	switch {
	case err != nil:
		return false, err
	case c == bracket:
		s.pos++
		return false, nil
	case c == 'n':
		text, _, err := s.Value(8)
		if err == nil && string(text) == "null" {
			return true, nil
		}
	}
	return false, fmt.Errorf("want %s", what)
}

// item reads the comma before an element, unless it is the first, or the closing bracket.
func (s *Stream) item(end byte, first bool) (done bool, err error) {
	c, err := s.more()
	switch {
	case err != nil:
		return false, err
	case c == end:
		s.pos++
		return true, nil
	case first:
		return false, nil
	}
	return false, s.expect(',')
}

func (s *Stream) expect(want byte) error {
	c, err := s.more()
	if err != nil {
		return err
	}
	if c != want {
		return fmt.Errorf("want %q between values", want)
	}
	s.pos++
	_, err = s.more()
	return err
}

// Skip reads over a value.
func (s *Stream) Skip() error {
	_, _, err := s.Value(0)
	return err
}

// Value reads a value. The text is valid until the next call. ok is false if it has more than most bytes: then it was read over.
func (s *Stream) Value(most int) (text []byte, ok bool, err error) {
	s.value, ok = s.value[:0], true
	c, err := s.more()
	if err != nil {
		return nil, false, err
	}
	if c == ',' || c == ':' || c == '}' || c == ']' {
		return nil, false, fmt.Errorf("want a value, not %q", c)
	}
	scan := scan{word: c != '{' && c != '[' && c != '"'}
	for {
		n, over := scan.step(s.buf[s.pos:s.end])
		if ok = ok && len(s.value)+n <= most; ok {
			s.value = append(s.value, s.buf[s.pos:s.pos+n]...)
		} else {
			s.value = s.value[:0]
		}
		if s.pos += n; over {
			return s.value, ok, nil
		}
		switch err := s.fill(); {
		case errors.Is(err, io.EOF) && scan.word:
			return s.value, ok, nil
		case errors.Is(err, io.EOF):
			return nil, false, io.ErrUnexpectedEOF
		case err != nil:
			return nil, false, err
		}
	}
}

// scan finds the end of a value.
type scan struct {
	word           bool // it is a number, true, false or null
	deep           int
	quoted, escape bool
}

// step returns how many bytes of text belong to the value, and whether it ends there.
func (s *scan) step(text []byte) (n int, over bool) {
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case s.escape:
			s.escape = false
		case s.quoted && c == '\\':
			s.escape = true
		case s.quoted && c != '"':
		case s.word:
			if c == ',' || c == '}' || c == ']' || c == ':' || c <= ' ' {
				return i, true
			}
		case c == '"':
			if s.quoted = !s.quoted; !s.quoted && s.deep == 0 {
				return i + 1, true
			}
		case c == '{' || c == '[':
			s.deep++
		case c == '}' || c == ']':
			if s.deep--; s.deep == 0 {
				return i + 1, true
			}
		}
	}
	return len(text), false
}

// Decode reads a value of at most so many bytes into to. ok is false if it has more: then it was read over.
func (s *Stream) Decode(to any, most int) (ok bool, err error) {
	text, ok, err := s.Value(most)
	if err != nil || !ok {
		return ok, err
	}
	return true, json.Unmarshal(text, to)
}

// String reads a string of at most so many bytes. One that is longer, or no string, is empty.
func (s *Stream) String(most int) (string, error) {
	text, ok, err := s.Value(most)
	var out string
	if err != nil || !ok || json.Unmarshal(text, &out) != nil || !utf8.ValidString(out) {
		return "", err
	}
	return out, nil
}
