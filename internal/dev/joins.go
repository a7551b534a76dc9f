package dev

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"sync"
	"time"

	"fairway/internal/config"
	"fairway/internal/dev/folder"
	"fairway/internal/identity"
	"fairway/internal/source/memory"
)

// tokenLife is how long a workload's token waits for its agent.
const tokenLife = 5 * time.Minute

// plane is what joining needs of the control plane. *app.Discovery is one, with its options.
type plane struct {
	xds     string
	roots   func() []byte
	token   func(identity.ID, time.Duration) (string, error)
	settled func(context.Context) error // waits until all that was staged is published
}

// joins lets workloads join and leave.
type joins struct {
	plane   plane
	source  *memory.Source
	decoder *config.Decoder
	say     func(format string, args ...any)
	leaving context.Context // ends when the control plane is to end

	mu       sync.Mutex
	places   *places
	members  map[string]joined // by workload
	expected map[string]bool   // those of members that had joined the control plane before this one, and may come back
	file     string            // keeps the members
}

func newJoins(p plane, to *memory.Source, d *config.Decoder) *joins {
	return &joins{
		plane: p, source: to, decoder: d,
		places: newPlaces(), members: map[string]joined{}, expected: map[string]bool{},
	}
}

// name is what a workload may be called: it is a part of its host, and the name of objects, with a number.
var name = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,48}[a-z0-9])?$`)

// Bounds of what one workload says.
const (
	mostLabels    = 32
	mostUpstreams = 32
)

func check(w folder.Workload) error {
	switch {
	case !name.MatchString(w.Name):
		return fmt.Errorf("--name %.60q: want lower-case letters, digits and -, at most 50, as web", w.Name)
	case len(w.Labels) > mostLabels:
		return fmt.Errorf("--label: %d labels, want at most %d", len(w.Labels), mostLabels)
	case len(w.Upstreams) > mostUpstreams:
		return fmt.Errorf("--upstream: %d, want at most %d", len(w.Upstreams), mostUpstreams)
	case w.Gateway == (w.Port != 0):
		return errors.New("an application has a port (--port), and a gateway has none")
	}
	return nil
}

// ServeHTTP answers a workload that joins. It is a member until its connection ends.
func (j *joins) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, folder.MostQuestion))
	var asked folder.Workload
	if err == nil {
		err = json.Unmarshal(text, &asked)
	}
	if err == nil {
		err = check(asked)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	member, welcome, err := j.join(r.Context(), asked)
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	defer func() {
		j.say("%s has left", member.Place.Workload)
		time.AfterFunc(2*linger, func() { j.leave(member) }) // its proxy names its group as long as it counts
	}()
	if err := json.NewEncoder(w).Encode(welcome); err != nil {
		return
	}
	if err := http.NewResponseController(w).Flush(); err != nil {
		return
	}
	select {
	case <-r.Context().Done():
	case <-j.leaving.Done():
	}
}

func (j *joins) join(ctx context.Context, w folder.Workload) (member joined, out folder.Welcome, err error) {
	member.Workload = w
	id, err := identity.New(trustDomain, namespace, w.Name)
	if err != nil {
		return member, out, err
	}
	if member.Place, err = j.place(w); err != nil {
		return member, out, err
	}
	out = folder.Welcome{Place: member.Place, Labels: member.labels(), XDS: j.plane.xds, Roots: string(j.plane.roots())}
	if out.Token, err = j.plane.token(id, tokenLife); err == nil {
		err = j.plane.settled(ctx)
	}
	if err != nil {
		j.leave(member)
		return member, out, err
	}
	j.say("%s has joined%s", member.Place.Workload, member.describe())
	return member, out, nil
}

func (j joined) describe() string {
	if j.Gateway {
		return ", a gateway"
	}
	return fmt.Sprintf(": http://%s, at %s:%d, is 127.0.0.1:%d", j.Name, j.Address, j.Inbound, j.Port)
}

// place gives a workload its place and its objects.
func (j *joins) place(w folder.Workload) (at folder.Place, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if was := w.Was; was != nil && j.expected[was.Workload] && j.members[was.Workload].Place == *was {
		delete(j.expected, was.Workload)
		return *was, nil
	}
	if at, err = j.places.take(w); err != nil {
		return at, err
	}
	if err = j.add(joined{w, at}); err != nil {
		j.places.leave(at)
	}
	return at, err
}

// add adds the objects of a workload. The lock is held.
func (j *joins) add(m joined) error {
	trees := m.own()
	if !m.Gateway {
		trees = append(trees, m.service())
	}
	objects, err := decode(j.decoder, "joined/"+m.Place.Workload, trees...)
	if err != nil {
		return err
	}
	j.members[m.Place.Workload] = m
	j.source.Set(objects...)
	j.keep()
	return nil
}

// leave removes the objects of a workload; the ServiceEntry of its name with the last one.
func (j *joins) leave(m joined) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.remove(m)
}

func (j *joins) remove(m joined) {
	gone := []config.Key{
		{Kind: config.WorkloadGroup, Namespace: namespace, Name: m.Place.Workload},
		{Kind: config.Sidecar, Namespace: namespace, Name: m.Place.Workload},
	}
	delete(j.members, m.Place.Workload)
	delete(j.expected, m.Place.Workload)
	if !j.serves(m.Name) {
		gone = append(gone, config.Key{Kind: config.ServiceEntry, Namespace: namespace, Name: m.Name})
	}
	j.source.Delete(gone...)
	j.places.leave(m.Place)
	j.keep()
}

// serves reports whether a member has a name. The lock is held.
func (j *joins) serves(name string) bool {
	for _, m := range j.members {
		if m.Name == name {
			return true
		}
	}
	return false
}
