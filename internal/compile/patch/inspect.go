package patch

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/config"
	"fairway/internal/envoy/inspect"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// admitsMessage reports whether the content of a patch may be sent, and notes it on the EnvoyFilter if it may not: see [inspect].
func (t *Tables) admitsMessage(r *table.Reader, o *config.Object, at int, m proto.Message) bool {
	if m == nil {
		return true
	}
	return t.admits(r, o, at, t.inspector(r).Message(m))
}

// admitsBootstrap is admitsMessage for a patch of bootstraps. Agents check these once more, with the folders of their own machine.
func (t *Tables) admitsBootstrap(r *table.Reader, o *config.Object, at int) bool {
	value := config.Spec[*networking.EnvoyFilter](o).GetConfigPatches()[at].GetPatch().GetValue()
	return t.admits(r, o, at, t.inspector(r).Value(structpb.NewStructValue(value)))
}

func (t *Tables) inspector(r *table.Reader) inspect.Inspector {
	_, folder := t.in.ProxyPlaces(r)
	return inspect.Inspector{Folder: folder}
}

func (t *Tables) admits(r *table.Reader, o *config.Object, at int, found inspect.Finding) bool {
	field := fmt.Sprintf("spec.configPatches[%d].patch.value", at)
	if found.Err != nil {
		r.Note(o.Problem(field, code.ProxysOwn, mesh.Error, "the patch is not applied: "+found.Err.Error(),
			"leave it out; the other patches of the object are applied"))
		return false
	}
	if !found.Lua {
		return true
	}
	problem, told, may := t.in.LuaProblem(r, o, field)
	if told {
		r.Note(problem)
	}
	return may
}
