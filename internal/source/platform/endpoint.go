package platform

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"

	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/printable"
)

// endpoint makes one of an instance.
func (n *notes) endpoint(in *Instance, ports *servicePorts) (out mesh.SliceEndpoint, ok bool) {
	if in.ID == "" || len(in.ID) > maxWord || !utf8.ValidString(in.ID) {
		n.add("instances", code.BadName, mesh.Error, "an instance is called "+quoted(in.ID)+"; it is left out")
		return out, false
	}
	first, also, ok := n.addresses(in)
	if !ok {
		return out, false
	}
	serves := map[string]string{}
	all := in.Ports
	if len(all) == 0 {
		all = []Port{{Number: in.Port}}
	}
	for _, p := range all {
		if p.Number == 0 || p.Number > 65535 || !printable.IsName(p.Name, maxWord) {
			n.add("instances", code.BadPort, mesh.Error,
				fmt.Sprintf("instance %s has %s %d for a port; it is left out", quoted(in.ID), quoted(p.Name), p.Number))
			continue
		}
		if name, ok := ports.serve(p); ok {
			serves[name] = strconv.FormatUint(uint64(p.Number), 10)
		}
	}
	if len(serves) == 0 {
		return out, false
	}
	labels, identity := n.labels(in), n.word(in, "identity", in.Identity)
	mode, said := labels.Get(mesh.TLSModeLabel)
	return mesh.SliceEndpoint{ID: in.ID, Endpoint: mesh.Endpoint{
		Address: first, Also: also, Ports: sharedLabels(mesh.MakeLabels(serves)), ListsAll: true, Labels: labels,
		MTLS:     mesh.TakesMutual(mode, said, identity),
		Locality: n.locality(in), Network: n.word(in, "network", in.Network), Identity: identity,
		Weight: min(in.Weight, maxWeight), Health: in.Health,
	}}, true
}

// maxWeight replaces any larger weight: the weights of a load assignment's endpoints may not add up to more than 32 bits
// hold.
const maxWeight = 65535

func (n *notes) addresses(in *Instance) (first string, also mesh.Others, ok bool) {
	var ips []string
	for i, a := range in.Addresses {
		if i == maxAddresses {
			break
		}
		ip, err := netip.ParseAddr(a)
		switch {
		case err == nil && (ip.IsUnspecified() || ip.IsMulticast() || ip.Zone() != ""):
			n.add("instances", code.BadAddress, mesh.Error,
				fmt.Sprintf("instance %s has the address %s, which cannot be reached; it is left out", quoted(in.ID), quoted(a)))
		case err == nil:
			ips = append(ips, ip.Unmap().String())
		case len(in.Addresses) == 1 && isHost(strings.ToLower(a)):
			return strings.ToLower(a), also, true
		default:
			n.add("instances", code.BadAddress, mesh.Error,
				fmt.Sprintf("instance %s has %s for an address; want an IP or a DNS name", quoted(in.ID), quoted(a)))
		}
	}
	if len(ips) == 0 {
		if len(in.Addresses) == 0 {
			n.add("instances", code.NoAddress, mesh.Error, fmt.Sprintf("instance %s has no address; it is left out", quoted(in.ID)))
		}
		return "", also, false
	}
	return ips[0], mesh.MakeOthers(ips[1:]...), true
}

func (n *notes) locality(in *Instance) mesh.Locality {
	l := in.Locality
	return mesh.Locality{
		Region: n.word(in, "region", l.Region), Zone: n.word(in, "zone", l.Zone), SubZone: n.word(in, "sub-zone", l.SubZone),
	}
}

// word returns a name that an instance has, or none.
func (n *notes) word(in *Instance, field, s string) string {
	if printable.Is(s, maxWord) && !strings.ContainsAny(s, ",=") {
		return shared(s)
	}
	n.add("instances", code.BadName, mesh.Error,
		fmt.Sprintf("%s %s of instance %s is not a name; it is left out", field, quoted(s), quoted(in.ID)))
	return ""
}

// labels returns the labels of an instance, without those that are not valid.
func (n *notes) labels(in *Instance) mesh.Labels {
	kept, left := make(map[string]string, len(in.Labels)), in.Unreadable
	for k, v := range in.Labels {
		if k == "" || !printable.IsName(k, maxWord) || !printable.Is(v, maxWord) || strings.Contains(v, ",") {
			left++
			continue
		}
		kept[k] = v
	}
	if len(kept) > maxLabels {
		left += len(kept)
		kept = nil
	}
	if left > 0 && !n.labelled {
		n.labelled = true
		n.add(
			"instances",
			code.BadLabel,
			mesh.Info,
			fmt.Sprintf("%d labels of instance %s, and of others perhaps, are left out: want names of letters, "+
				"digits, '-', '_', '.' and '/', values without commas, and at most %d of them", left, quoted(in.ID), maxLabels),
		)
	}
	return sharedLabels(mesh.MakeLabels(kept))
}

// Slices of services with many instances are cut into so many, so that a change of one instance costs a part.
const (
	wholeSlice = 128
	cuts       = 64
)

// sliced cuts endpoints into slices. Which slice has an endpoint depends on its ID alone.
func sliced(key mesh.ServiceKey, all []mesh.SliceEndpoint) (out []*mesh.Slice) {
	if len(all) == 0 {
		return nil
	}
	slices.SortFunc(all, func(a, b mesh.SliceEndpoint) int { return cmp.Compare(a.ID, b.ID) })
	if len(all) <= wholeSlice {
		return []*mesh.Slice{{Key: mesh.SliceKey{Service: key, Name: "all"}, Endpoints: all}}
	}
	var by [cuts][]mesh.SliceEndpoint
	for _, e := range all {
		at := xxhash.Sum64String(e.ID) % cuts
		by[at] = append(by[at], e)
	}
	for i, part := range by {
		if len(part) > 0 {
			out = append(out, &mesh.Slice{Key: mesh.SliceKey{Service: key, Name: strconv.Itoa(i)}, Endpoints: part})
		}
	}
	return out
}
