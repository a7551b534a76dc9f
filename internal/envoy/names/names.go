package names

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"fairway/internal/envoy"
)

// Entry is one name with its addresses.
type Entry struct {
	Host string // in lower case; may be a wildcard: "*.example.com"
	IPs  []string
	// Registry is the kind of registry that has the service: "Kubernetes", "ServiceEntry".
	Registry string
	// Short and Namespace are the parts of the name of a service of the mesh, <short>.<namespace>.svc.<domain>, whose end clients may
	// leave out; empty otherwise.
	Short, Namespace string
}

// String is the entry on one line.
func (e Entry) String() string {
	out := e.Host + " " + strings.Join(e.IPs, ",") + " " + e.Registry
	if e.Short != "" {
		out += " " + e.Short + "/" + e.Namespace
	}
	return out
}

// Field numbers of NameTable, of an entry of its map, and of NameInfo.
const (
	tableEntry protowire.Number = 1
	tableInfo  protowire.Number = 2

	entryKey   protowire.Number = 1
	entryValue protowire.Number = 2

	infoIP        protowire.Number = 1
	infoRegistry  protowire.Number = 2
	infoShort     protowire.Number = 3
	infoNamespace protowire.Number = 4
)

// Encode encodes a table of entries, in their order. A table without entries says that there is no such name, to proxies that would see
// another table on a lower layer.
func Encode(entries []Entry) *envoy.Encoded {
	var body []byte
	for _, e := range entries {
		entry := field(nil, entryKey, e.Host)
		entry = field(entry, entryValue, string(e.info()))
		body = field(body, tableEntry, string(entry))
	}
	return envoy.Sealed(body, nil)
}

func (e Entry) info() []byte {
	var out []byte
	for _, ip := range e.IPs {
		out = field(out, infoIP, ip)
	}
	out = optional(out, infoRegistry, e.Registry)
	out = optional(out, infoShort, e.Short)
	return optional(out, infoNamespace, e.Namespace)
}

func optional(to []byte, num protowire.Number, value string) []byte {
	if value == "" {
		return to
	}
	return field(to, num, value)
}

func field(to []byte, num protowire.Number, value string) []byte {
	return protowire.AppendString(protowire.AppendTag(to, num, protowire.BytesType), value)
}

// Decode decodes a resource with a name table, and returns its entries in order of their hosts. If it has no table, the result is one
// entry with an empty Host: the addresses that the resource's own name resolves to (name_info, which newer control planes may send).
func Decode(body []byte) ([]Entry, error) {
	var out []Entry
	err := fields(body, func(num protowire.Number, value []byte) (err error) {
		var e Entry
		switch num {
		case tableEntry:
			err = e.decode(value)
		case tableInfo:
			err = e.decodeInfo(value)
		default:
			return nil
		}
		out = append(out, e)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("decode name table: %w", err)
	}
	slices.SortStableFunc(out, func(a, b Entry) int { return strings.Compare(a.Host, b.Host) })
	return out, nil
}

func (e *Entry) decode(raw []byte) error {
	return fields(raw, func(num protowire.Number, value []byte) error {
		switch num {
		case entryKey:
			e.Host = string(value)
		case entryValue:
			return e.decodeInfo(value)
		}
		return nil
	})
}

func (e *Entry) decodeInfo(raw []byte) error {
	return fields(raw, func(num protowire.Number, value []byte) error {
		switch num {
		case infoIP:
			e.IPs = append(e.IPs, string(value))
		case infoRegistry:
			e.Registry = string(value)
		case infoShort:
			e.Short = string(value)
		case infoNamespace:
			e.Namespace = string(value)
		}
		return nil
	})
}

// fields calls do for each length-delimited field, and skips others.
func fields(raw []byte, do func(num protowire.Number, value []byte) error) error {
	for len(raw) > 0 {
		num, typ, n := protowire.ConsumeTag(raw)
		if n < 0 {
			return protowire.ParseError(n)
		}
		raw = raw[n:]
		size := protowire.ConsumeFieldValue(num, typ, raw)
		if size < 0 {
			return protowire.ParseError(size)
		}
		if typ == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(raw)
			if err := do(num, value); err != nil {
				return err
			}
		}
		raw = raw[size:]
	}
	return nil
}
