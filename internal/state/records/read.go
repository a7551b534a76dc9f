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
	left     map[int]lack
	goes     time.Time // when it is given up; zero: its index is there
}

// lack is why records of a part are left out.
type lack struct {
	invalid bool // some have an odd name, or are too large
	full    bool // there was no room for some
	drops   int  // what drops was then: the part is read again once there is more room
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
			if !r.giveUp(now) {
				continue
			}
		case <-ctx.Done():
			return
		}
		again = nil
		drops := r.drops
		err := r.look(time.Now())
		if ctx.Err() != nil {
			return
		}
		switch fails++; {
		case err != nil:
			again = time.After(r.every(r.retry.After(fails)))
		case r.drops > drops: // there may be room for what was left out before these went
			fails, again = 0, time.After(r.every(time.Second))
		default:
			fails = 0
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
			w = &writer{versions: map[int]int{}, left: map[int]lack{}}
			r.others[of] = w
		}
		w.goes = time.Time{}
		if err := r.lookAt(of, w, i, skip); err != nil {
			return err
		}
		left = left || len(w.left) > 0
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

// lookAt reads the parts of a control plane that have changed, and those that there may be room for now.
func (r *Records) lookAt(of string, w *writer, i index, skip func(string, error)) error {
	for _, n := range slices.Sorted(maps.Keys(i.Parts)) {
		again := w.left[n].full && w.left[n].drops < r.drops
		if n < 0 || n >= parts || w.versions[n] >= i.Parts[n] && !again {
			continue
		}
		name := fmt.Sprintf("%s%s/%d", partsOf, of, n)
		text, err := r.o.Shared.Record(name, mostPart)
		if errors.Is(err, fs.ErrNotExist) { // it is being removed
			continue
		}
		if err != nil {
			return err
		}
		var p part
		if err := json.Unmarshal(text, &p); err != nil {
			skip(name, err)
			continue
		}
		changes := r.take(of, w, n, p)
		w.versions[n] = p.Version
		if len(changes) > 0 {
			r.o.Change(changes)
		}
	}
	return nil
}

// take puts a part in the place of the one before, and returns what has changed.
func (r *Records) take(of string, w *writer, n int, p part) (out []Change) {
	var left lack
	before, now := w.records[n], map[string]record{}
	for _, x := range p.Records {
		if partOf(x.Name) == n && printable.Is(x.Name, mostName) && len(x.Value) <= mostValue {
			now[x.Name] = x
		} else {
			left.invalid = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if _, is := now[name]; !is {
			r.free(before[name])
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
			left.full = true
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
	if delete(w.left, n); left.invalid || left.full {
		left.drops = r.drops
		w.left[n] = left
	}
	return out
}

// free makes the room of a record another one's.
func (r *Records) free(x record) { r.count, r.bytes, r.drops = r.count-1, r.bytes-x.size(), r.drops+1 }

func (x record) size() int { return len(x.Name) + len(x.Value) }

// heard sets the own clock no lower than another control plane's. A clock that is far ahead is a mistake, and counts for nothing.
func (r *Records) heard(clock int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if clock < time.Now().Add(time.Hour).UnixMilli() {
		r.clock = max(r.clock, clock)
	}
}

// giveUp gives up the control planes that have lacked their index for too long, and reports whether there was one.
func (r *Records) giveUp(now time.Time) (some bool) {
	for _, of := range slices.Sorted(maps.Keys(r.others)) {
		if w := r.others[of]; w.goes.IsZero() || now.Before(w.goes) {
			continue
		}
		some = true
		if out := r.drop(of); len(out) > 0 {
			r.o.Change(out)
		}
	}
	return some
}

// drop forgets a control plane.
func (r *Records) drop(of string) (out []Change) {
	for _, all := range r.others[of].records {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			r.free(all[name])
			out = append(out, Change{Writer: of, Name: name, Gone: true})
		}
	}
	delete(r.others, of)
	return out
}
