package kept

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/source"
)

// MaxBytes bounds the bytes of one cluster: some 100,000 pods. A larger cluster is not kept.
const MaxBytes = 64 << 20

// version is the version of the format. Content of an older or newer program is not read.
const version = 2

// Cluster is what a cluster's source handed in.
type Cluster struct {
	Registry string    // of the rows
	AsOf     time.Time // when it was known last that they are right
	Shards   []source.Shard
}

// head is the first line: it describes the rest.
type head struct {
	Version  int
	Registry string
	AsOf     time.Time
	Sum      string // SHA-256 of the rest, in hex
}

// shard is a source.Shard.
type shard struct {
	Key        source.ShardKey
	Objects    []object         `json:",omitempty"`
	Services   []*mesh.Service  `json:",omitempty"`
	Slices     []*mesh.Slice    `json:",omitempty"`
	Workloads  []*mesh.Workload `json:",omitempty"`
	Machines   []mesh.Machine   `json:",omitempty"`
	Namespaces []mesh.Namespace `json:",omitempty"`
}

// ErrLarge says that there is more than is kept.
var ErrLarge = fmt.Errorf("more than %d bytes, which are not kept", MaxBytes)

// Encode writes a cluster down. Secrets among its rows are left out, and all objects where rules says that these are not kept. It fails
// with ErrLarge as soon as there are more than MaxBytes, and builds no more than that.
func Encode(c Cluster, rules bool) ([]byte, error) {
	out := newSheet()
	out.raw("[")
	for i, s := range c.Shards {
		if i > 0 {
			out.raw(",")
		}
		out.raw(`{"Key":`)
		out.value(s.Key)
		if rules {
			if err := out.objects(s.Rows.Objects); err != nil {
				return nil, err
			}
		}
		list(out, "Services", s.Rows.Services)
		list(out, "Slices", s.Rows.Slices)
		list(out, "Workloads", s.Rows.Workloads)
		list(out, "Machines", s.Rows.Machines)
		list(out, "Namespaces", s.Rows.Namespaces)
		out.raw("}")
		if out.err != nil {
			return nil, out.err
		}
	}
	out.raw("]")
	return out.headed(c)
}

// Decode reads back the content that Encode wrote for a registry. Any other content is an error, fit to be shown. rules judges
// objects as fresh ones are judged, and one that is not valid any more is left out; nil: there must be none.
func Decode(registry string, content []byte, rules *config.Decoder) (Cluster, error) {
	line, rows, ok := bytes.Cut(content, []byte{'\n'})
	var h head
	if !ok || len(line) > 1<<10 || json.Unmarshal(line, &h) != nil {
		return Cluster{}, errors.New("it does not begin with its header line")
	}
	sum := sha256.Sum256(rows)
	switch {
	case h.Version != version:
		return Cluster{}, fmt.Errorf("it is of version %d, and version %d is read", h.Version, version)
	case h.Registry != registry:
		return Cluster{}, fmt.Errorf("it is of another cluster than %q", registry)
	case h.Sum != hex.EncodeToString(sum[:]):
		return Cluster{}, errors.New("it is damaged: its check sum is another")
	}
	var shards []shard
	decoder := json.NewDecoder(bytes.NewReader(rows))
	decoder.DisallowUnknownFields()
	if !utf8.Valid(rows) || decoder.Decode(&shards) != nil {
		return Cluster{}, errors.New("its rows cannot be read")
	}
	out := Cluster{Registry: registry, AsOf: h.AsOf}
	for _, s := range shards {
		if err := s.check(registry); err != nil {
			return Cluster{}, err
		}
		rows, err := s.rows(rules)
		if err != nil {
			return Cluster{}, err
		}
		out.Shards = append(out.Shards, source.Shard{Key: s.Key, Whole: true, Rows: rows})
	}
	return out, nil
}

// check returns an error if the source of a cluster does not hand in such rows. registry is that of the cluster; empty: any.
func (s shard) check(registry string) error {
	bad := func(what string) error {
		return fmt.Errorf("it contains a %s of another cluster, or one that no source hands in", what)
	}
	other := func(of string) bool { return registry != "" && of != registry }
	for _, v := range s.Services {
		if v == nil || other(v.Key.Registry) || !known(v) || len(v.Clusters) > 0 || v.ClusterLocal {
			return bad("service")
		}
	}
	for _, v := range s.Slices {
		if v == nil || other(v.Key.Service.Registry) {
			return bad("slice")
		}
		ids := map[string]bool{}
		for _, e := range v.Endpoints {
			if ids[e.ID] || e.Health > mesh.Unready || e.Workload != (mesh.WorkloadKey{}) && other(e.Workload.Registry) ||
				!runsIn(registry, e.Machine) {
				return bad("endpoint")
			}
			ids[e.ID] = true
		}
	}
	for _, v := range s.Workloads {
		if v == nil || other(v.Key.Registry) || v.Health > mesh.Unready || !runsIn(registry, v.Machine) {
			return bad("workload")
		}
	}
	for _, v := range s.Machines {
		if other(v.Key.Registry) {
			return bad("machine")
		}
	}
	for _, v := range s.Namespaces {
		if other(v.Key.Registry) {
			return bad("namespace")
		}
	}
	return nil
}

// rows decodes the objects, and returns all rows.
func (s shard) rows(rules *config.Decoder) (source.Rows, error) {
	objects, err := read(s.Objects, rules)
	return source.Rows{
		Objects: objects, Services: s.Services, Slices: s.Slices, Workloads: s.Workloads, Machines: s.Machines, Namespaces: s.Namespaces,
	}, err
}

// runsIn reports whether a machine belongs to a registry (empty: any), or there is none.
func runsIn(registry string, m mesh.MachineRef) bool {
	return registry == "" || m == (mesh.MachineRef{}) || m.Key().Registry == registry
}

// known reports whether the protocols and the resolution of a service are known ones.
func known(s *mesh.Service) bool {
	for _, p := range s.Ports {
		if !p.Protocol.IsProtocol() {
			return false
		}
	}
	return s.Resolution <= mesh.DNSRoundRobin
}
