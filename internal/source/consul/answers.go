package consul

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Bounds of what answers may hold. What is beyond is not decoded.
const (
	mostServices  = 100_000
	mostInstances = 1_000_000 // of all services
	mostEntries   = 60_000    // of one service
	mostNodes     = 50_000    // that say something of their health
	mostDefaults  = 100_000
	mostAnswer    = 64 // MiB, where options say nothing
)

// nameList is an answer of /v1/catalog/services: the names alone.
type nameList struct {
	names map[string]bool
	over  int // how many there were beyond the bound
}

// UnmarshalJSON reads names and skips their tags.
func (l *nameList) UnmarshalJSON(text []byte) error {
	l.names = map[string]bool{}
	dec := json.NewDecoder(bytes.NewReader(text))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return errors.New("want an object of services")
	}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return err
		}
		name, _ := t.(string)
		if err := dec.Decode(new(skipped)); err != nil {
			return err
		}
		if len(l.names) >= mostServices {
			l.over++
			continue
		}
		l.names[name] = true
	}
	return nil
}

// skipped is a value that nobody needs.
type skipped struct{}

// UnmarshalJSON takes anything.
func (*skipped) UnmarshalJSON([]byte) error { return nil }

// list is an answer that is an array, of which no more than some are decoded.
type list[T any] struct{ all []T }

func (l *list[T]) decode(text []byte, most int) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	t, err := dec.Token()
	if err == nil && t == nil { // null
		return nil
	}
	if err != nil || t != json.Delim('[') {
		return errors.New("want an array")
	}
	for dec.More() {
		if len(l.all) >= most {
			return fmt.Errorf("more than %d entries", most)
		}
		var one T
		if err := dec.Decode(&one); err != nil {
			return err
		}
		l.all = append(l.all, one)
	}
	return nil
}

// entries is an answer of /v1/health/service/NAME.
type entries struct{ list[entry] }

// UnmarshalJSON bounds them.
func (e *entries) UnmarshalJSON(text []byte) error { return e.decode(text, mostEntries) }

// entry is what is read of an instance. What the client library decodes beside it is not needed.
type entry struct {
	Node struct {
		Node, Address, Datacenter string
		Meta                      map[string]string
		Locality                  *locality
	}
	Service struct {
		Kind, ID, Service, Address string
		Port                       int
		Ports                      []struct {
			Name string
			Port int
		}
		Tags            []string
		Meta            map[string]string
		TaggedAddresses map[string]struct {
			Address string
			Port    int
		}
		Weights  *struct{ Passing, Warning int }
		Locality *locality
	}
	Checks []check
}

type locality struct{ Region, Zone string }

type check struct{ CheckID, Status string }

// checks is an answer of /v1/health/state/STATE.
type checks struct {
	list[struct{ Node, CheckID, ServiceName string }]
}

// UnmarshalJSON bounds them.
func (c *checks) UnmarshalJSON(text []byte) error { return c.decode(text, mostNodes) }

// protocols is an answer of /v1/config/service-defaults.
type protocols struct {
	list[struct{ Name, Protocol string }]
}

// UnmarshalJSON bounds them.
func (p *protocols) UnmarshalJSON(text []byte) error { return p.decode(text, mostDefaults) }

// anything is an answer of which only the headers are needed.
type anything = skipped
