package parameters

import (
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/internal/compile/gatewayapi/deployed"
	"fairway/internal/compile/gatewayapi/owners"
	"fairway/internal/compile/input"
	"fairway/internal/compile/secret"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// refOf returns the reference of a Gateway or a GatewayClass to parameters of its deployment, and its field; nil: it has none.
func refOf(o *config.Object) (ref *gatewayv1.ParametersReference, field string) {
	switch spec := o.Native.(type) {
	case *gatewayv1.GatewayClassSpec:
		return spec.ParametersRef, "spec.parametersRef"
	case *gatewayv1.GatewaySpec:
		if spec.Infrastructure == nil || spec.Infrastructure.ParametersRef == nil {
			return nil, ""
		}
		local, namespace := spec.Infrastructure.ParametersRef, gatewayv1.Namespace(o.Namespace)
		return &gatewayv1.ParametersReference{Group: local.Group, Kind: local.Kind, Name: local.Name, Namespace: &namespace},
			"spec.infrastructure.parametersRef"
	}
	return nil, ""
}

// has reports whether an object names parameters.
func has(_ config.Key, o *config.Object) bool {
	ref, _ := refOf(o)
	return ref != nil
}

// mapAt returns the ConfigMap that a reference names. wrong says why there can be none.
func mapAt(ref *gatewayv1.ParametersReference) (k secret.Key, wrong deployed.Fault) {
	switch {
	case ref.Group != "" || ref.Kind != "ConfigMap":
		return k, deployed.Fault{
			Code: code.NotSupported, Fix: "name a ConfigMap",
			Message: fmt.Sprintf("parameters of kind %s and group %q are not supported", ref.Kind, ref.Group),
		}
	case ref.Namespace == nil:
		return k, deployed.Fault{
			Code: code.Missing, Message: "the namespace of ConfigMap " + ref.Name + " is not set", Fix: "set namespace",
		}
	case len(validation.IsDNS1123Subdomain(ref.Name)) > 0:
		return k, deployed.Fault{
			Code: code.BadName, Message: strconv.Quote(ref.Name) + " is not the name of a ConfigMap", Fix: "write the name alone",
		}
	}
	return secret.Key{Namespace: string(*ref.Namespace), Name: ref.Name, ConfigMap: true}, deployed.Fault{}
}

// Tables are the parameters of classes and Gateways that name some.
type Tables struct {
	classes, gateways *table.Table[config.Key, *deployed.Parameters]
}

// Declare declares the parameters that Gateways and their classes name. It returns the ConfigMaps that have to be read.
func Declare(in *input.Tables, gateways *input.Objects, secrets *secret.Tables) (t Tables, wanted *table.Table[secret.Key, struct{}]) {
	named := func(_ config.Key, o *config.Object) (out []secret.Key) {
		if ref, _ := refOf(o); ref != nil && in.DeploysGateways() {
			if k, wrong := mapAt(ref); wrong == (deployed.Fault{}) {
				out = append(out, k)
			}
		}
		return out
	}
	classes := table.Derive(in.GatewayClasses, "gatewayapi/classes with parameters", config.CompareKey, config.Same,
		func(_ *table.Reader, k config.Key, o *config.Object, emit func(config.Key, *config.Object)) {
			if has(k, o) && owners.IsOurs(o.Native.(*gatewayv1.GatewayClassSpec).ControllerName) {
				emit(k, o)
			}
		})
	wanted = table.Union("gatewayapi/wanted parameters", secret.CompareKey, table.Same[struct{}], nil,
		table.Whole(table.Keys(classes, "gatewayapi/parameters named by classes", secret.CompareKey, named)),
		table.Whole(table.Keys(gateways, "gatewayapi/parameters named by gateways", secret.CompareKey, named)))
	read := table.Derive(wanted, "gatewayapi/read parameters", secret.CompareKey, deployed.SameParameters,
		func(r *table.Reader, k secret.Key, _ struct{}, emit func(secret.Key, *deployed.Parameters)) {
			texts, others, lacks := secrets.Parameters(r, k)
			switch {
			case lacks.Unread:
				emit(k, &deployed.Parameters{Unread: true})
			case lacks != secret.Missing{}:
				emit(k, &deployed.Parameters{Wrong: deployed.Fault{Code: code.MissingSecret, Message: lacks.Message, Fix: lacks.Fix}})
			default:
				emit(k, deployed.ParametersOf(texts, others))
			}
		})
	settle := func(r *table.Reader, k config.Key, o *config.Object, emit func(config.Key, *deployed.Parameters)) {
		ref, field := refOf(o)
		at, wrong := mapAt(ref)
		out := &deployed.Parameters{Wrong: wrong}
		if found, is := table.Get(r, read, at); is {
			out = found
			if o.Kind == config.KubernetesGateway && found.Wrong == (deployed.Fault{}) && found.Reserved != (deployed.Fault{}) {
				out = &deployed.Parameters{Wrong: found.Reserved}
			}
		}
		if out.Wrong != (deployed.Fault{}) {
			out = &deployed.Parameters{Wrong: out.Wrong}
			out.Wrong.Message += ": the deployed objects stay as they are"
			if at != (secret.Key{}) && out.Wrong.Code != code.MissingSecret {
				out.Wrong.Message = "ConfigMap " + at.String() + ": " + out.Wrong.Message
			}
			r.Note(o.Problem(field, out.Wrong.Code, mesh.Error, out.Wrong.Message, out.Wrong.Fix))
		}
		emit(k, out)
	}
	t.classes = table.Derive(classes, "gatewayapi/parameters of classes", config.CompareKey, deployed.SameParameters, settle)
	t.gateways = table.DeriveWhere(gateways, has, "gatewayapi/parameters", config.CompareKey, deployed.SameParameters, settle)
	return t, wanted
}

// OfClass returns why the parameters of a class cannot be used; empty: they can, or it names none.
func (t Tables) OfClass(r *table.Reader, class config.Key) (wrong string) {
	if p, is := table.Get(r, t.classes, class); is {
		return p.Wrong.Message
	}
	return ""
}

// Of returns the parameters of a Gateway in the order of merging: those of its class, then its own. If some cannot be used, wrong says why;
// otherwise it is empty.
func (t Tables) Of(r *table.Reader, o *config.Object) (all []*deployed.Parameters, wrong string, unread bool) {
	class := string(o.Native.(*gatewayv1.GatewaySpec).GatewayClassName)
	if p, is := table.Get(r, t.classes, config.Key{Kind: config.GatewayClass, Name: class}); is {
		if all = append(all, p); p.Wrong.Message != "" {
			return nil, "parameters of GatewayClass " + class + ": " + p.Wrong.Message, false
		}
	}
	if p, is := table.Get(r, t.gateways, o.Key); is {
		if all = append(all, p); p.Wrong.Message != "" {
			return nil, p.Wrong.Message, false
		}
	}
	for _, p := range all {
		unread = unread || p.Unread
	}
	return all, "", unread
}
