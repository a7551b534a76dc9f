package api

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"fairway/internal/mesh"
	"fairway/internal/printable"
	"fairway/internal/source/api/book"
	"fairway/internal/source/platform"
)

// Service is one with its instances, as it is put.
type Service struct {
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	Host      string   `json:"host,omitempty"`     // that clients call it by; empty: from the registry's template
	Protocol  string   `json:"protocol,omitempty"` // that ports speak which say none, as Istio's API names it
	Port      uint32   `json:"port,omitempty"`     // that clients address; 0: each port of instances is one of the service
	Addresses []string `json:"addresses,omitempty"`
	ExportTo  []string `json:"exportTo,omitempty"` // namespaces that may see it; empty: all
	External  bool     `json:"external,omitempty"` // it is not a part of the mesh
	// Instances are all that serve it; nil, if a service is put: those that it has stay.
	Instances Instances `json:"instances,omitempty"`
}

// Instance is one place that serves a service.
type Instance struct {
	ID        string            `json:"id"`        // tells the instances of a service apart
	Addresses []string          `json:"addresses"` // IPs of it, the first one first; or one DNS name
	Port      uint32            `json:"port,omitempty"`
	Ports     Ports             `json:"ports,omitempty"` // in place of Port
	Labels    map[string]string `json:"labels,omitempty"`
	Locality  string            `json:"locality,omitempty"` // region/zone/subzone
	Network   string            `json:"network,omitempty"`
	Identity  string            `json:"identity,omitempty"` // service account or SPIFFE id
	Weight    uint32            `json:"weight,omitempty"`
	Health    string            `json:"health,omitempty"` // healthy, unhealthy, draining; empty: healthy
	TTL       string            `json:"ttl,omitempty"`    // as 30s: it goes when it is not put again within that time; empty: it stays
}

// Port is one that an instance listens on.
type Port struct {
	Name     string `json:"name,omitempty"`
	Number   uint32 `json:"number"`
	Protocol string `json:"protocol,omitempty"`
}

// Instances are read one by one, so that a body of many small ones takes no memory before it is found to be too long.
type Instances []Instance

// UnmarshalJSON implements json.Unmarshaler.
func (l *Instances) UnmarshalJSON(text []byte) error {
	list, err := readList[Instance](text, platform.MaxInstances, "instances")
	*l = list
	return err
}

// mostPorts are those of one instance.
const mostPorts = 100

// Ports are read as Instances are.
type Ports []Port

// UnmarshalJSON implements json.Unmarshaler.
func (l *Ports) UnmarshalJSON(text []byte) error {
	list, err := readList[Port](text, mostPorts, "ports")
	*l = list
	return err
}

func readList[T any](text []byte, most int, what string) ([]T, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	first, err := dec.Token()
	if err != nil || first == nil {
		return nil, err
	}
	if first != json.Delim('[') {
		return nil, fmt.Errorf("%s: want a list", what)
	}
	out := []T{}
	for dec.More() {
		if len(out) == most {
			return nil, fmt.Errorf("%s: there are more than %d", what, most)
		}
		var one T
		if err := dec.Decode(&one); err != nil {
			return nil, fmt.Errorf("%s[%d]: %w", what, len(out), err)
		}
		out = append(out, one)
	}
	return out, nil
}

// errUTF8 is why a body is neither JSON nor YAML.
var errUTF8 = errors.New("the body is not UTF-8")

// readJSON reads a body that holds one value, and no field that is not known.
func readJSON(body []byte, into any) error {
	if !utf8.Valid(body) {
		return errUTF8
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		if errors.Is(err, io.EOF) {
			return errors.New("the body is empty; want JSON")
		}
		return fmt.Errorf("the body cannot be read: %s", printable.Text(err.Error(), printable.Short))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON of the body")
	}
	return nil
}

// key returns the service's key in the book.
func (s *Service) key() book.Key { return book.Key{Namespace: s.Namespace, Name: s.Name} }

// at puts an instance in the place of the one with its ID, or adds it.
func (s *Service) at(in Instance) {
	at, found := slices.BinarySearchFunc(s.Instances, in.ID, byID)
	if found {
		s.Instances[at] = in
		return
	}
	s.Instances = slices.Insert(s.Instances, at, in)
}

// without removes an instance, and reports whether it was there.
func (s *Service) without(id string) bool {
	at, found := slices.BinarySearchFunc(s.Instances, id, byID)
	if found {
		s.Instances = slices.Delete(s.Instances, at, at+1)
	}
	return found
}

func byID(in Instance, id string) int { return cmp.Compare(in.ID, id) }

// order brings the instances into the order of the book, and says what cannot be read of them.
func (s *Service) order() error {
	slices.SortStableFunc(s.Instances, func(a, b Instance) int { return cmp.Compare(a.ID, b.ID) })
	for i := range s.Instances {
		in := &s.Instances[i]
		if i > 0 && s.Instances[i-1].ID == in.ID {
			return fmt.Errorf("instance %s is there twice", quoted(in.ID))
		}
		if err := in.check(); err != nil {
			return err
		}
	}
	return nil
}

// check returns an error if a field of the instance cannot be read. Values that rows cannot have are found when the rows
// are built.
func (in *Instance) check() error {
	_, err := in.health()
	if err == nil {
		_, err = in.locality()
	}
	if err == nil {
		_, err = in.ttl()
	}
	if err == nil && len(in.Ports) > 0 && in.Port != 0 {
		err = errors.New("port, ports: both say what it listens on; give one of them")
	}
	if err != nil {
		return fmt.Errorf("instance %s: %w", quoted(in.ID), err)
	}
	return nil
}

func (in *Instance) health() (mesh.Health, error) {
	switch in.Health {
	case "", "healthy":
		return mesh.Healthy, nil
	case "unhealthy":
		return mesh.Unhealthy, nil
	case "draining":
		return mesh.Draining, nil
	}
	return 0, fmt.Errorf("health: %s is not valid; want healthy, unhealthy or draining", quoted(in.Health))
}

func (in *Instance) locality() (mesh.Locality, error) {
	parts := strings.Split(in.Locality, "/")
	if len(parts) > 3 || len(parts) > 1 && slices.Contains(parts, "") {
		return mesh.Locality{}, fmt.Errorf("locality: %s; want region, region/zone or region/zone/subzone", quoted(in.Locality))
	}
	parts = append(parts, "", "")
	return mesh.Locality{Region: parts[0], Zone: parts[1], SubZone: parts[2]}, nil
}

// ttl returns the TTL; 0: the instance stays.
func (in *Instance) ttl() (time.Duration, error) {
	if in.TTL == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(in.TTL)
	if err != nil || d < leastTTL || d > mostTTL {
		return 0, fmt.Errorf("ttl: %s; want a duration from %s to %s, as 30s", quoted(in.TTL), leastTTL, mostTTL)
	}
	return d, nil
}

// encode returns the service as it is stored and shown: one line, the same for the same service. Its instances must be in
// order.
func encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // structs of strings and numbers can always be written
	}
	return printable.JSON(text)
}

// stored reads back what encode wrote.
func stored(body []byte) (s Service, err error) {
	err = json.Unmarshal(body, &s)
	return s, err
}

// registered returns the service in the form that rows are made of.
func (s *Service) registered() *platform.Service {
	out := &platform.Service{
		Name: s.Name, Namespace: s.Namespace, Protocol: s.Protocol, Port: s.Port, Addresses: s.Addresses, External: s.External,
		Vars: map[string]string{"host": s.Host}, Meta: map[string]string{platform.MetaExportTo: strings.Join(s.ExportTo, ",")},
		Instances: make([]platform.Instance, len(s.Instances)),
	}
	for i := range s.Instances {
		in := &s.Instances[i]
		health, _ := in.health()
		locality, _ := in.locality()
		out.Instances[i] = platform.Instance{
			ID: in.ID, Addresses: in.Addresses, Port: in.Port, Labels: in.Labels, Locality: locality, Network: in.Network,
			Identity: in.Identity, Weight: in.Weight, Health: health,
		}
		for _, p := range in.Ports {
			out.Instances[i].Ports = append(out.Instances[i].Ports, platform.Port(p))
		}
	}
	return out
}

func quoted(s string) string { return `"` + printable.Text(s, printable.Short) + `"` }
