package snapshot

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/source/kept"
	"fairway/internal/source/shards"
)

// format is the version of the format. Files of other versions are not read.
const format = 1

// MaxBytes bounds a snapshot, uncompressed: some 500,000 endpoints and 50,000 proxies.
const MaxBytes = 1 << 30

// line is one line of a file: exactly one field is set. Lines are in this order; parts and secrets belong to the source above.
type line struct {
	Head     *Head       `json:",omitempty"`
	Source   *origin     `json:",omitempty"`
	Part     *kept.Part  `json:",omitempty"`
	Secret   *credential `json:",omitempty"`
	Outside  *Outside    `json:",omitempty"`
	Enforced *kept.Part  `json:",omitempty"`
	End      bool        `json:",omitempty"`
}

// origin is a source.
type origin struct {
	Name     string
	Last     bool                      `json:",omitempty"`
	Problems map[string][]mesh.Problem `json:",omitempty"`
}

// Encode writes a snapshot as compressed lines of JSON. It fails if that is more than MaxBytes, or if w does.
func Encode(w io.Writer, s *Snapshot) error {
	packed, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		return err
	}
	buffered := bufio.NewWriterSize(&bounded{to: packed, left: MaxBytes}, 64<<10)
	e := encoder{json.NewEncoder(buffered)}
	if err := e.snapshot(s); err != nil {
		return fmt.Errorf("write a snapshot: %w", err)
	}
	return errors.Join(buffered.Flush(), packed.Close())
}

type encoder struct{ to *json.Encoder }

func (e encoder) snapshot(s *Snapshot) error {
	if err := e.to.Encode(line{Head: &s.Head}); err != nil {
		return err
	}
	for _, from := range s.Sources {
		if err := e.to.Encode(line{Source: &origin{from.Name, from.Last, from.Problems}}); err != nil {
			return err
		}
		for _, part := range from.Shards {
			if err := e.shard(part); err != nil {
				return err
			}
		}
	}
	if err := e.to.Encode(line{Outside: &s.Outside}); err != nil {
		return err
	}
	enforced, err := kept.MakePart(source.ShardKey{}, source.Rows{Objects: s.Outside.Enforced})
	if err != nil {
		return err
	}
	if err := e.to.Encode(line{Enforced: &enforced}); err != nil {
		return err
	}
	return e.to.Encode(line{End: true})
}

// shard writes a shard in pieces, so that no line is long.
func (e encoder) shard(s source.Shard) error {
	r := s.Rows
	for r.Len() > 0 {
		var piece source.Rows
		left := source.PieceRows
		move(&piece.Objects, &r.Objects, &left)
		move(&piece.Services, &r.Services, &left)
		move(&piece.Slices, &r.Slices, &left)
		move(&piece.Workloads, &r.Workloads, &left)
		move(&piece.Machines, &r.Machines, &left)
		move(&piece.Namespaces, &r.Namespaces, &left)
		part, err := kept.MakePart(s.Key, piece)
		if err != nil {
			return err
		}
		if err := e.to.Encode(line{Part: &part}); err != nil {
			return err
		}
		for _, o := range piece.Objects {
			if c, is := withheld(s.Key, o); is && o.Credential != nil {
				if err := e.to.Encode(line{Secret: &c}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// move moves at most left rows.
func move[V any](to, from *[]V, left *int) {
	n := min(len(*from), *left)
	*to, *from = (*from)[:n:n], (*from)[n:]
	*left -= n
}

// bounded fails once more has been written than it lets through.
type bounded struct {
	to   io.Writer
	left int
}

func (b *bounded) Write(text []byte) (int, error) {
	if b.left -= len(text); b.left < 0 {
		return 0, fmt.Errorf("it has more than %d bytes", MaxBytes)
	}
	return b.to.Write(text)
}

// Decode reads what Encode wrote. Any other content is an error, fit to be shown. Rules that are not valid any more, in the eyes of this
// program, are left out.
func Decode(r io.Reader, rules *config.Decoder) (*Snapshot, error) {
	unpacked, err := gzip.NewReader(r)
	if err != nil {
		return nil, errors.New("this is not a snapshot: it is not compressed as those of pilotctl bug-report and /debug/snapshotz are")
	}
	limited := &io.LimitedReader{R: unpacked, N: MaxBytes + 1}
	from := json.NewDecoder(bufio.NewReaderSize(limited, 64<<10))
	from.DisallowUnknownFields()
	d := decoder{rules: rules, out: &Snapshot{}}
	for !d.ended {
		var l line
		if err := from.Decode(&l); err != nil {
			if limited.N <= 0 {
				return nil, fmt.Errorf("the snapshot has more than %d bytes", MaxBytes)
			}
			return nil, fmt.Errorf("the snapshot is damaged, or of another version of the program, after %d lines: %w", d.lines, err)
		}
		if err := d.line(l); err != nil {
			return nil, fmt.Errorf("line %d of the snapshot: %w", d.lines+1, err)
		}
		d.lines++
	}
	if err := from.Decode(&line{}); !errors.Is(err, io.EOF) {
		return nil, errors.New("the snapshot goes on after its end")
	}
	return d.out, nil
}

type decoder struct {
	rules *config.Decoder
	out   *Snapshot
	lines int
	ended bool
}

func (d *decoder) line(l line) error {
	switch {
	case d.lines == 0:
		if l.Head == nil || l.Head.Format != format {
			return fmt.Errorf("it does not begin with a head of format %d; use the program that it was made with", format)
		}
		d.out.Head = *l.Head
	case l.Source != nil:
		if slices.ContainsFunc(d.out.Sources, func(s shards.Said) bool { return s.Name == l.Source.Name }) {
			return fmt.Errorf("the source %q is there twice", l.Source.Name)
		}
		d.out.Sources = append(d.out.Sources, shards.Said{Name: l.Source.Name, Last: l.Source.Last, Problems: l.Source.Problems})
	case l.Part != nil:
		key, rows, err := l.Part.Rows(d.rules)
		if err != nil {
			return err
		}
		return d.add(key, rows)
	case l.Secret != nil:
		o, err := l.Secret.object(d.rules)
		if err != nil {
			return err
		}
		return d.add(l.Secret.Shard, source.Rows{Objects: []*config.Object{o}})
	case l.Outside != nil:
		d.out.Outside = *l.Outside
	case l.Enforced != nil:
		_, rows, err := l.Enforced.Rows(d.rules)
		d.out.Outside.Enforced = rows.Objects
		return err
	case l.End:
		d.ended = true
	default:
		return errors.New("it is empty")
	}
	return nil
}

// add adds rows to a shard of the last source.
func (d *decoder) add(key source.ShardKey, rows source.Rows) error {
	if len(d.out.Sources) == 0 {
		return errors.New("rows come before their source")
	}
	from := &d.out.Sources[len(d.out.Sources)-1]
	if n := len(from.Shards); n == 0 || from.Shards[n-1].Key != key {
		from.Shards = append(from.Shards, source.Shard{Key: key, Whole: true})
	}
	to := &from.Shards[len(from.Shards)-1].Rows
	to.Objects = append(to.Objects, rows.Objects...)
	to.Services = append(to.Services, rows.Services...)
	to.Slices = append(to.Slices, rows.Slices...)
	to.Workloads = append(to.Workloads, rows.Workloads...)
	to.Machines = append(to.Machines, rows.Machines...)
	to.Namespaces = append(to.Namespaces, rows.Namespaces...)
	return nil
}
