package records

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"fairway/internal/printable"
	"fairway/internal/servers"
	"fairway/internal/state"
)

// The names of records in the store.
const (
	aliveOf = "members/alive/"
	partsOf = "members/part/"
	indexOf = "members/index/"
)

// part is the content of a part.
type part struct {
	Version int      `json:"version"`
	Records []record `json:"records"`
}

type record struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Clock int64  `json:"clock"`
}

// index is the content of an index: the versions of the parts that have records.
type index struct {
	Parts map[int]int `json:"parts"`
}

// write writes this control plane's records as they change, raises its number, and cleans up.
func (r *Records) write(ctx context.Context) {
	tick := time.NewTicker(r.every(beatEvery))
	defer tick.Stop()
	fails := 0
	beat := true
	for ctx.Err() == nil {
		err := r.writeOnce(beat)
		if err == nil && beat {
			err = r.clean(time.Now())
		}
		if err != nil {
			fails++
			if !servers.Pause(ctx, r.every(r.retry.After(fails))) {
				return
			}
			beat = true // the number may be gone
			continue
		}
		fails = 0
		select {
		case <-r.some:
			beat = false
		case <-tick.C:
			beat = true
		case <-ctx.Done():
		}
	}
}

func (r *Records) writeOnce(beat bool) error {
	if len(r.versions) == 0 && len(r.takeChanged()) == 0 { // nothing was shared yet
		return nil
	}
	if beat || r.beats == 0 {
		if err := r.beat(); err != nil {
			return err
		}
	}
	life := r.life
	for _, n := range r.takeChanged() {
		if time.Since(r.beaten) >= r.every(beatEvery) { // many parts, or a slow store
			if err := r.beat(); err != nil {
				return err
			}
			if r.life != life {
				return r.writeOnce(false)
			}
		}
		if err := r.writePart(n); err != nil {
			r.giveBack(n)
			return err
		}
		r.indexed = false
	}
	if r.indexed {
		return nil
	}
	text, err := json.Marshal(index{r.versions})
	if err != nil {
		return err
	}
	err = r.put(indexOf+r.name(), mostIndex, text)
	r.indexed = err == nil
	return err
}

// beat raises the number of this control plane. If it is gone, another one has removed all, or the store has lost it: all is written anew.
func (r *Records) beat() error {
	gone := false
	err := r.o.Shared.Change(aliveOf+r.name(), mostIndex, func(old []byte) ([]byte, error) {
		gone = old == nil && r.beats > 0
		if gone {
			return nil, nil
		}
		return strconv.AppendInt(nil, int64(r.beats)+1, 10), nil
	})
	if err != nil {
		return err
	}
	r.beats++
	r.beaten = time.Now()
	if !gone {
		return nil
	}
	r.o.Log.Info("the records of this control plane were removed from the shared state: they are written anew", "as", r.name())
	r.life, r.beats, r.versions, r.indexed = r.life+1, 0, map[int]int{}, false
	r.mu.Lock()
	for n := range r.own {
		if len(r.own[n]) > 0 {
			r.changed[n] = true
		}
	}
	r.mu.Unlock()
	return r.beat()
}

func (r *Records) takeChanged() (out []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for n := range r.changed {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}

// giveBack marks a part that the store did not take.
func (r *Records) giveBack(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changed[n] = true
}

func (r *Records) writePart(n int) error {
	r.mu.Lock()
	delete(r.changed, n)
	p := part{Version: r.versions[n] + 1}
	for name, e := range r.own[n] {
		p.Records = append(p.Records, record{name, string(e.value), e.clock})
	}
	r.mu.Unlock()
	slices.SortFunc(p.Records, func(a, b record) int { return cmp.Compare(a.Name, b.Name) })
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	if err := r.put(fmt.Sprintf("%s%s/%d", partsOf, r.name(), n), mostPart, text); err != nil {
		return err
	}
	r.versions[n] = p.Version
	return nil
}

// put writes a record that this control plane alone writes.
func (r *Records) put(name string, limit int64, text []byte) error {
	return r.o.Shared.Change(name, limit, func([]byte) ([]byte, error) { return text, nil })
}

// pulse is the number of another control plane, and when it was seen to change.
type pulse struct {
	number string
	at     time.Time
}

// clean removes the records of control planes that have died. The one that holds the lease does it.
func (r *Records) clean(now time.Time) error {
	return r.o.Shared.AloneIf(func(remove func(string, func([]byte) bool) error) error {
		alive, err := r.o.Shared.Records(aliveOf, mostIndex, func(string, error) {})
		if err != nil {
			return err
		}
		indexes, err := r.o.Shared.Records(indexOf, mostIndex, func(string, error) {})
		if err != nil {
			return err
		}
		there := map[string]string{} // numbers by writer; empty: it has none
		for name := range indexes {
			there[strings.TrimPrefix(name, indexOf)] = ""
		}
		if now.Sub(r.swept) >= r.every(time.Hour) { // those of which nothing else is left
			parts, err := r.o.Shared.Records(partsOf, mostPart, func(string, error) {})
			if err != nil {
				return err
			}
			for name := range parts {
				of, _, _ := strings.Cut(strings.TrimPrefix(name, partsOf), "/")
				there[of] = ""
			}
			r.swept = now
		}
		for name, number := range alive {
			there[strings.TrimPrefix(name, aliveOf)] = string(number)
		}
		for of, number := range there {
			if was, known := r.dead[of]; !known || was.number != number {
				r.dead[of] = pulse{number, now}
			} else if of != r.name() && now.Sub(was.at) >= r.every(deadAfter) {
				if err := r.bury(of, number, remove); err != nil {
					return err
				}
			}
		}
		for of := range r.dead {
			if _, is := there[of]; !is {
				delete(r.dead, of)
			}
		}
		return nil
	})
}

// bury removes all of a control plane that has died: first its number, unless that was raised meanwhile.
func (r *Records) bury(of, number string, remove func(string, func([]byte) bool) error) error {
	raised := false
	err := remove(aliveOf+of, func(content []byte) bool {
		raised = string(content) != number
		return !raised
	})
	if raised || errors.Is(err, state.ErrConflict) {
		return nil
	}
	if err != nil {
		return err
	}
	r.o.Log.Info("a control plane has died: what it shared is removed", "writer", printable.Text(of, printable.Short))
	all, err := r.o.Shared.Records(partsOf+of+"/", mostPart, func(string, error) {})
	if err != nil {
		return err
	}
	always := func([]byte) bool { return true }
	errs := []error{remove(indexOf+of, always)}
	for name := range all {
		errs = append(errs, remove(name, always))
	}
	delete(r.dead, of)
	return errors.Join(errs...)
}
