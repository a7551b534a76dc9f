package amend

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// Context is which of a proxy's traffic a message is for (EnvoyFilter.PatchContext).
type Context = networking.EnvoyFilter_PatchContext

// The contexts of messages.
const (
	Inbound  = networking.EnvoyFilter_SIDECAR_INBOUND
	Outbound = networking.EnvoyFilter_SIDECAR_OUTBOUND
	Gateway  = networking.EnvoyFilter_GATEWAY
)

// ops names operations shortly.
type op = networking.EnvoyFilter_Patch_Operation

const (
	opAdd     = networking.EnvoyFilter_Patch_ADD
	opRemove  = networking.EnvoyFilter_Patch_REMOVE
	opMerge   = networking.EnvoyFilter_Patch_MERGE
	opReplace = networking.EnvoyFilter_Patch_REPLACE
	opBefore  = networking.EnvoyFilter_Patch_INSERT_BEFORE
	opAfter   = networking.EnvoyFilter_Patch_INSERT_AFTER
	opFirst   = networking.EnvoyFilter_Patch_INSERT_FIRST
	opLists   = networking.EnvoyFilter_Patch_MERGE_AND_REPLACE_LIST
)

// Patch is one of an EnvoyFilter's configPatches, read. It is immutable.
type Patch struct {
	to    networking.EnvoyFilter_ApplyTo
	op    op
	class networking.EnvoyFilter_Patch_FilterClass
	match *networking.EnvoyFilter_EnvoyConfigObjectMatch
	value proto.Message // nil: the operation takes none
	// sources are the messages packed in value.
	sources map[*anypb.Any]proto.Message
}

// operations lists, for each kind of object, the message that a patch's value is parsed into, and the operations that are allowed.
var operations = map[networking.EnvoyFilter_ApplyTo]struct {
	message proto.Message
	ops     []op
}{
	networking.EnvoyFilter_CLUSTER:      {&clusterv3.Cluster{}, []op{opAdd, opRemove, opMerge, opLists}},
	networking.EnvoyFilter_LISTENER:     {&listenerv3.Listener{}, []op{opAdd, opRemove, opMerge, opLists}},
	networking.EnvoyFilter_FILTER_CHAIN: {&listenerv3.FilterChain{}, []op{opAdd, opRemove, opMerge, opLists}},
	networking.EnvoyFilter_NETWORK_FILTER: {
		&listenerv3.Filter{}, []op{opAdd, opRemove, opMerge, opLists, opBefore, opAfter, opFirst, opReplace},
	},
	networking.EnvoyFilter_HTTP_FILTER: {
		&hcmv3.HttpFilter{}, []op{opAdd, opRemove, opMerge, opLists, opBefore, opAfter, opFirst, opReplace},
	},
	networking.EnvoyFilter_LISTENER_FILTER: {
		&listenerv3.ListenerFilter{}, []op{opAdd, opRemove, opMerge, opLists, opBefore, opAfter, opFirst, opReplace},
	},
	networking.EnvoyFilter_ROUTE_CONFIGURATION: {&routev3.RouteConfiguration{}, []op{opMerge, opLists}},
	networking.EnvoyFilter_VIRTUAL_HOST:        {&routev3.VirtualHost{}, []op{opAdd, opRemove, opMerge, opLists}},
	networking.EnvoyFilter_HTTP_ROUTE: {
		&routev3.Route{}, []op{opAdd, opRemove, opMerge, opLists, opBefore, opAfter, opFirst},
	},
	networking.EnvoyFilter_EXTENSION_CONFIG: {&corev3.TypedExtensionConfig{}, []op{opAdd, opMerge, opLists, opReplace}},
}

// Known reports whether patches of this kind of object are supported.
func Known(to networking.EnvoyFilter_ApplyTo) bool {
	_, ok := operations[to]
	return ok
}

// Read parses a patch. The error is for the author of the rule; field is the field of the patch that it is about.
func Read(p *networking.EnvoyFilter_EnvoyConfigObjectPatch) (_ *Patch, field string, _ error) {
	kind, ok := operations[p.GetApplyTo()]
	if !ok {
		return nil, "applyTo", fmt.Errorf("patches of %s have no effect yet", p.GetApplyTo())
	}
	out := &Patch{
		to: p.GetApplyTo(), op: p.GetPatch().GetOperation(), class: p.GetPatch().GetFilterClass(), match: p.GetMatch(),
	}
	allowed := false
	for _, o := range kind.ops {
		allowed = allowed || o == out.op
	}
	if !allowed {
		return nil, "patch.operation", fmt.Errorf("%s is not done to %s", out.op, out.to)
	}
	if out.op == opRemove {
		return out, "", nil
	}
	text, err := protojson.Marshal(p.GetPatch().GetValue())
	if err != nil {
		return nil, "patch.value", err
	}
	out.value = proto.Clone(kind.message)
	if err := protojson.Unmarshal(text, out.value); err != nil {
		return nil, "patch.value", fmt.Errorf("it is no %s: %s", out.value.ProtoReflect().Descriptor().FullName(), plain(err))
	}
	if e, ok := out.value.(*corev3.TypedExtensionConfig); ok && e.GetName() == "" {
		return nil, "patch.value.name", errors.New("filters ask for an extension config by its name, and it has none")
	}
	out.sources = map[*anypb.Any]proto.Message{}
	unpackAll(out.value.ProtoReflect(), out.sources)
	if err := out.checkValue(); err != nil {
		return nil, "patch.value", fmt.Errorf("Envoy would refuse it wherever it is put: %w", err)
	}
	return out, "", nil
}

// Added returns the cluster or listener that the patch adds to proxies of a context; nil: it adds none.
func (p *Patch) Added(context Context) proto.Message {
	if p.op != opAdd || !p.in(context) {
		return nil
	}
	switch p.value.(type) {
	case *clusterv3.Cluster, *listenerv3.Listener:
		return p.value
	}
	return nil
}

// noise matches the beginning of an error of parsing JSON: after a space of one kind or another, a position in the JSON that was generated
// from a value. The value's author never sees this JSON.
var noise = regexp.MustCompile(`^proto:\s*(\(line \d+:\d+\):\s*)?`)

// plain returns the part of a JSON parsing error that is about the value.
func plain(err error) string {
	return noise.ReplaceAllString(strings.ReplaceAll(err.Error(), "\u00a0", " "), "")
}

// Adds reports whether the patch adds its value beside existing messages.
func (p *Patch) Adds() bool { return p.op == opAdd }

// Value returns the value of the patch; nil: none. It must not be changed.
func (p *Patch) Value() proto.Message { return p.value }

// in reports whether the patch is for messages of a context.
func (p *Patch) in(context Context) bool {
	of := p.match.GetContext()
	return of == networking.EnvoyFilter_ANY || of == context
}

func (p *Patch) merges() bool { return p.op == opMerge || p.op == opLists }

// mergeInto merges the value into a message, or into a part of it.
func (p *Patch) mergeInto(open *Open, m proto.Message) error {
	return merger{open: open, sources: p.sources, lists: p.op == opLists}.merge(m.ProtoReflect(), p.value.ProtoReflect())
}

// Changed says what happened to a message that is changed in place.
type Changed struct {
	Gone    bool // it is removed
	Matched bool // the patch matched; if not, the message is unchanged
}
