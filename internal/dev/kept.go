package dev

import (
	"encoding/json"
	"errors"
	"io/fs"
	"time"

	"fairway/internal/dev/folder"
	"fairway/internal/identity/safefile"
)

// patience is how long the workloads of the control plane before this one may take to come back: they try twice a second.
const patience = 3 * time.Second

// mostKept bounds the file of members, in bytes.
const mostKept = 16 << 20

// kept is a member in the file.
type kept struct {
	Workload folder.Workload `json:"workload"`
	Place    folder.Place    `json:"place"`
}

// keep writes the members into the file, so that a control plane that starts again sends their proxies the same. The lock is held.
func (j *joins) keep() {
	out := []kept{}
	for _, m := range j.members {
		m.Workload.Was = nil
		out = append(out, kept{m.Workload, m.Place})
	}
	text, err := json.Marshal(out)
	if err == nil {
		err = safefile.Write(j.file, text, 0o600)
	}
	if err != nil {
		j.say("the workloads are not kept for the next control plane: %v", err)
	}
}

// restore adds the members of the control plane before this one, for as long as they may take to come back.
func (j *joins) restore() {
	var all []kept
	text, err := safefile.Read(j.file, mostKept)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		j.say("the workloads that had joined are not known: %v", err)
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, k := range all {
		k.Workload.Was = &k.Place
		at, err := folder.Place{}, check(k.Workload)
		if err == nil {
			at, err = j.places.take(k.Workload)
		}
		m := joined{k.Workload, at}
		if err == nil && at != k.Place {
			j.places.leave(at)
			continue
		}
		if err == nil {
			err = j.add(m)
		}
		if err != nil {
			j.say("%s, which had joined, cannot come back: %v", k.Place.Workload, err)
			continue
		}
		j.expected[at.Workload] = true
	}
	time.AfterFunc(patience, j.forget)
}

// forget removes the members that have not come back.
func (j *joins) forget() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for name := range j.expected {
		j.remove(j.members[name])
		j.say("%s has not come back", name)
	}
}
