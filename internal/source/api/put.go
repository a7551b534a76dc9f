package api

import (
	"crypto/sha256"
	"errors"
	"net/http"
	"slices"
	"time"

	"fairway/internal/mesh"
	"fairway/internal/source"
)

// Outcome is what a change led to.
type Outcome struct {
	Revision uint64         // of the thing, changed or not
	Created  bool           // it was not there
	Problems []mesh.Problem // what of it does not do what it says
}

// gone returns the change that removes a thing.
func (s *Source) gone(k key) change {
	shard := s.rows.Gone(k.namespace, k.name)
	if k.kind != "" {
		shard = source.Shard{Key: source.ShardKey{Kind: objectKind, Part: k.path()}, Whole: true}
	}
	return change{entry: entry{key: k}, shard: shard}
}

// PutService puts a service in the place of what there is of it. If it says nothing of instances, the present ones stay.
// It sorts the lists in v.
func (s *Source) PutService(v Service, c Condition) (Outcome, error) {
	renews := v.Instances != nil
	return s.alter(v.key(), c, func(e *entry) (change, error) {
		if !renews && e != nil {
			before, err := stored(e.body)
			if err != nil {
				return change{}, err
			}
			v.Instances = before.Instances
		}
		made, err := s.checkService(&v)
		made.renews = renews
		return made, err
	})
}

// PutInstance puts one instance of a service. If there is no such service, it is made, with only its name.
func (s *Source) PutInstance(namespace, name string, in Instance, c Condition) (Outcome, error) {
	k := key{"", namespace, name}
	if err := in.check(); err != nil {
		return Outcome{}, refuse(http.StatusUnprocessableEntity, "%s", err)
	}
	sum := sha256.Sum256(encode(in))
	return s.alter(k, c, func(e *entry) (change, error) {
		v := Service{Namespace: namespace, Name: name}
		if e != nil {
			if s.leases.extend(k, in.ID, sum, time.Now()) {
				return change{entry: *e}, nil
			}
			var err error
			if v, err = stored(e.body); err != nil {
				return change{}, err
			}
		}
		v.at(in)
		return s.checkService(&v)
	})
}

// DeleteInstance takes one instance of a service away. One that is not there is a Refusal.
func (s *Source) DeleteInstance(namespace, name, id string, c Condition) (Outcome, error) {
	k := key{"", namespace, name}
	return s.alter(k, c, func(e *entry) (change, error) {
		var v Service
		var err error
		if e != nil {
			v, err = stored(e.body)
		}
		if err != nil || e == nil || !v.without(id) {
			return change{}, errors.Join(err, refuse(http.StatusNotFound, "%s has no instance %s", k.path(), quoted(id)))
		}
		return s.checkService(&v)
	})
}

// PutObject puts a rule, as YAML or JSON. kind may be empty: then the text's own names count.
func (s *Source) PutObject(kind, namespace, name string, text []byte, c Condition) (Outcome, error) {
	checked, err := s.checkObject(key{kind, namespace, name}, slices.Clone(text))
	if err != nil {
		return Outcome{}, err
	}
	return s.alter(checked.entry.key, c, func(*entry) (change, error) { return checked, nil })
}

// DeleteService takes a service away. One that is not there is a Refusal.
func (s *Source) DeleteService(namespace, name string, c Condition) (Outcome, error) {
	return s.remove(key{"", namespace, name}, c)
}

// DeleteObject takes a rule away. One that is not there is a Refusal.
func (s *Source) DeleteObject(kind, namespace, name string, c Condition) (Outcome, error) {
	return s.remove(key{kind, namespace, name}, c)
}

func (s *Source) remove(k key, c Condition) (Outcome, error) {
	return s.alter(k, c, func(e *entry) (change, error) {
		if e == nil {
			return change{}, refuse(http.StatusNotFound, "%s is not there", k.path())
		}
		return s.gone(k), nil
	})
}
