package kept

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"fairway/internal/config"
)

// sheet is JSON that is being written, one row after another, so that no more is built than MaxBytes and one row.
type sheet struct {
	text []byte // begins with room for the head
	err  error  // nothing is written any more
}

// headRoom is room for the first line.
const headRoom = 1 << 10

func newSheet() *sheet { return &sheet{text: make([]byte, headRoom, 64<<10)} }

func add[T string | []byte](s *sheet, text T) {
	switch {
	case s.err != nil:
	case len(s.text)+len(text) > MaxBytes:
		s.text, s.err = nil, ErrLarge
	default:
		s.text = append(s.text, text...)
	}
}

func (s *sheet) raw(text string) { add(s, text) }

func (s *sheet) value(v any) {
	if s.err != nil {
		return
	}
	text, err := json.Marshal(v)
	if err != nil {
		s.text, s.err = nil, err
		return
	}
	add(s, text)
}

// list writes a member of a shard, unless there are no rows of it.
func list[T any](s *sheet, name string, rows []T) {
	for i, row := range rows {
		s.next(name, i)
		if s.value(row); s.err != nil {
			return
		}
	}
	s.close(len(rows))
}

// next writes the text before row i of a member.
func (s *sheet) next(name string, i int) {
	if i == 0 {
		s.raw(`,"` + name + `":[`)
	} else {
		s.raw(",")
	}
}

func (s *sheet) close(rows int) {
	if rows > 0 {
		s.raw("]")
	}
}

// objects writes those that are kept.
func (s *sheet) objects(all []*config.Object) error {
	n := 0
	for _, o := range all {
		row, is, err := written(o)
		if err != nil {
			return err
		}
		if !is {
			continue
		}
		s.next("Objects", n)
		if n++; s.err != nil {
			return s.err
		}
		s.value(row)
	}
	s.close(n)
	return s.err
}

// headed returns the content, with its head before it.
func (s *sheet) headed(c Cluster) ([]byte, error) {
	if s.err != nil {
		return nil, s.err
	}
	sum := sha256.Sum256(s.text[headRoom:])
	line, err := json.Marshal(head{version, c.Registry, c.AsOf.UTC(), hex.EncodeToString(sum[:])})
	if err != nil {
		return nil, err
	}
	if line = append(line, '\n'); len(line) > headRoom {
		return nil, ErrLarge
	}
	out := s.text[headRoom-len(line):]
	copy(out, line)
	return out, nil
}
