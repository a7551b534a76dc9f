package api

import (
	"crypto/sha256"
	"errors"
	"net/http"
	"slices"
	"time"

	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/source/api/book"
)

// Outcome is what a change led to.
type Outcome struct {
	Revision uint64         // of the thing, changed or not
	Created  bool           // it was not there
	Problems []mesh.Problem // what of it does not do what it says
}

// gone returns the change that removes a thing.
func (s *Source) gone(k book.Key) change {
	shard := s.rows.Gone(k.Namespace, k.Name)
	if k.Kind != "" {
		shard = source.Shard{Key: source.ShardKey{Kind: objectKind, Part: k.Path()}, Whole: true}
	}
	return change{entry: book.Entry{Key: k}, shard: shard}
}

// PutService puts a service in the place of what there is of it. If it says nothing of instances, the present ones stay.
// It sorts the lists in v.
func (s *Source) PutService(v Service, c Condition) (Outcome, error) {
	renews := v.Instances != nil
	return s.alter(v.key(), c, func(e *book.Entry) (change, error) {
		if !renews && e != nil {
			before, err := stored(e.Body)
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
	k := book.Key{Namespace: namespace, Name: name}
	if err := in.check(); err != nil {
		return Outcome{}, refuse(http.StatusUnprocessableEntity, "%s", err)
	}
	sum := sha256.Sum256(encode(in))
	return s.alter(k, c, func(e *book.Entry) (change, error) {
		v := Service{Namespace: namespace, Name: name}
		if e != nil {
			if s.leases.extend(k, in.ID, sum, time.Now()) {
				return change{entry: *e}, nil
			}
			var err error
			if v, err = stored(e.Body); err != nil {
				return change{}, err
			}
		}
		v.at(in)
		return s.checkService(&v)
	})
}

// DeleteInstance takes one instance of a service away. One that is not there is a Refusal.
func (s *Source) DeleteInstance(namespace, name, id string, c Condition) (Outcome, error) {
	k := book.Key{Namespace: namespace, Name: name}
	return s.alter(k, c, func(e *book.Entry) (change, error) {
		var v Service
		var err error
		if e != nil {
			v, err = stored(e.Body)
		}
		if err != nil || e == nil || !v.without(id) {
			return change{}, errors.Join(err, refuse(http.StatusNotFound, "%s has no instance %s", k.Path(), quoted(id)))
		}
		return s.checkService(&v)
	})
}

// PutObject puts a rule, as YAML or JSON. kind may be empty: then the text's own names count.
func (s *Source) PutObject(kind, namespace, name string, text []byte, c Condition) (Outcome, error) {
	checked, err := s.checkObject(book.Key{Kind: kind, Namespace: namespace, Name: name}, slices.Clone(text))
	if err != nil {
		return Outcome{}, err
	}
	return s.alter(checked.entry.Key, c, func(*book.Entry) (change, error) { return checked, nil })
}

// DeleteService takes a service away. One that is not there is a Refusal.
func (s *Source) DeleteService(namespace, name string, c Condition) (Outcome, error) {
	return s.remove(book.Key{Namespace: namespace, Name: name}, c)
}

// DeleteObject takes a rule away. One that is not there is a Refusal.
func (s *Source) DeleteObject(kind, namespace, name string, c Condition) (Outcome, error) {
	return s.remove(book.Key{Kind: kind, Namespace: namespace, Name: name}, c)
}

func (s *Source) remove(k book.Key, c Condition) (Outcome, error) {
	return s.alter(k, c, func(e *book.Entry) (change, error) {
		if e == nil {
			return change{}, refuse(http.StatusNotFound, "%s is not there", k.Path())
		}
		return s.gone(k), nil
	})
}
