package records

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"fairway/internal/printable"
)

// writer is another control plane, as it was read last.
type writer struct {
	versions map[int]int
	records  [parts]map[string]record
	goes     time.Time // when it is given up; zero: its index is there
}

// read reads what has changed elsewhere, until ctx ends.
func (r *Records) read(ctx context.Context, looks <-chan struct{}) {
	tick := time.NewTicker(r.every(time.Second))
	defer tick.Stop()
	fails := 0
	var again <-chan time.Time
	for {
		select {
		case <-looks:
		case <-again:
		case now := <-tick.C:
			r.giveUp(now)
			continue
		case <-ctx.Done():
			return
		}
		again = nil
		err := r.look(time.Now())
		if ctx.Err() != nil {
			return
		}
		if fails++; err == nil {
			fails = 0
		} else {
			again = time.After(r.every(r.retry.After(fails)))
		}
		r.once.Do(func() { close(r.tried) })
	}
}

// look reads the indexes, and the parts that have another version.
func (r *Records) look(now time.Time) error {
	bad := ""
	skip := func(name string, err error) {
		bad = fmt.Sprintf("record %s cannot be read: %s", printable.Text(name, printable.Short),
			printable.Text(err.Error(), printable.Short))
	}
	all, err := r.o.Shared.Records(indexOf, mostIndex, skip)
	if err != nil {
		return err
	}
	there := map[string]bool{}
	left := false
	for _, name := range slices.Sorted(maps.Keys(all)) {
		of := strings.TrimPrefix(name, indexOf)
		if strings.HasPrefix(of, r.o.Writer+"~") {
			continue
		}
		var i index
		if err := json.Unmarshal(all[name], &i); err != nil || !printable.Is(of, mostName) || strings.Contains(of, "/") {
			skip(name, errors.Join(err, errors.New("want an index")))
			continue
		}
		there[of] = true
		w := r.others[of]
		if w == nil {
			if len(r.others) >= mostWriters {
				left = true
				continue
			}
			w = &writer{versions: map[int]int{}}
			r.others[of] = w
		}
		w.goes = time.Time{}
		room, err := r.lookAt(of, w, i, skip)
		if err != nil {
			return err
		}
		left = left || !room
	}
	for of, w := range r.others {
		if !there[of] && w.goes.IsZero() {
			w.goes = now.Add(r.every(missingFor))
		}
	}
	r.tell("bad", bad)
	if left {
		r.tell("room", fmt.Sprintf("other control planes share more than %d records or %d MiB, or records of more than %d bytes: the "+
			"rest is not read", MostRecords, mostBytes>>20, mostValue))
	} else {
		r.tell("room", "")
	}
	return nil
}

// lookAt reads the parts of a control plane that have changed; room: there was room for all.
func (r *Records) lookAt(of string, w *writer, i index, skip func(string, error)) (room bool, err error) {
	room = true
	for _, n := range slices.Sorted(maps.Keys(i.Parts)) {
		if n < 0 || n >= parts || w.versions[n] >= i.Parts[n] {
			continue
		}
		name := fmt.Sprintf("%s%s/%d", partsOf, of, n)
		text, err := r.o.Shared.Record(name, mostPart)
		if errors.Is(err, fs.ErrNotExist) { // it is being removed
			continue
		}
		if err != nil {
			return room, err
		}
		var p part
		if err := json.Unmarshal(text, &p); err != nil {
			skip(name, err)
			continue
		}
		changes, fits := r.take(of, w, n, p)
		room = room && fits
		w.versions[n] = p.Version
		if len(changes) > 0 {
			r.o.Change(changes)
		}
	}
	return room, nil
}

// take puts a part in the place of the one before, and returns what has changed; fits: there was room for all.
func (r *Records) take(of string, w *writer, n int, p part) (out []Change, fits bool) {
	fits = true
	before, now := w.records[n], map[string]record{}
	for _, x := range p.Records {
		if partOf(x.Name) == n && printable.Is(x.Name, mostName) && len(x.Value) <= mostValue {
			now[x.Name] = x
		} else {
			fits = false
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if _, is := now[name]; !is {
			r.count, r.bytes = r.count-1, r.bytes-before[name].size()
			out = append(out, Change{Writer: of, Name: name, Gone: true})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		x := now[name]
		was, had := before[name]
		if had && was == x {
			continue
		}
		more, size := 1, x.size()
		if had {
			more, size = 0, size-was.size()
		}
		if r.count+more > MostRecords || r.bytes+size > mostBytes {
			fits = false
			if had {
				now[name] = was
			} else {
				delete(now, name)
			}
			continue
		}
		r.count, r.bytes = r.count+more, r.bytes+size
		r.heard(x.Clock)
		out = append(out, Change{Writer: of, Name: name, Value: []byte(x.Value), Clock: x.Clock})
	}
	w.records[n] = now
	return out, fits
}

func (x record) size() int { return len(x.Name) + len(x.Value) }

// heard sets the own clock no lower than another control plane's. A clock that is far ahead is a mistake, and counts for nothing.
func (r *Records) heard(clock int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if clock < time.Now().Add(time.Hour).UnixMilli() {
		r.clock = max(r.clock, clock)
	}
}

// giveUp gives up the control planes that have lacked their index for too long.
func (r *Records) giveUp(now time.Time) {
	for _, of := range slices.Sorted(maps.Keys(r.others)) {
		if w := r.others[of]; w.goes.IsZero() || now.Before(w.goes) {
			continue
		}
		if out := r.drop(of); len(out) > 0 {
			r.o.Change(out)
		}
	}
}

// drop forgets a control plane.
func (r *Records) drop(of string) (out []Change) {
	for _, all := range r.others[of].records {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			r.count, r.bytes = r.count-1, r.bytes-all[name].size()
			out = append(out, Change{Writer: of, Name: name, Gone: true})
		}
	}
	delete(r.others, of)
	return out
}
