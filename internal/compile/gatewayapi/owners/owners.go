package owners

import (
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/internal/compile/input"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// Owners says which Gateways are this control plane's.
type Owners struct{ in *input.Tables }

// New returns the Owners by these objects.
func New(in *input.Tables) Owners { return Owners{in} }

// istioClass is the name of a class that means this control plane where no GatewayClass says otherwise.
const istioClass = "istio"

// builtIn returns the controller of a class that needs no GatewayClass, as without Kubernetes; empty: the class needs one.
func builtIn(class string) gatewayv1.GatewayController {
	switch class {
	case istioClass:
		return istioController
	case "fairway":
		return Own
	case "istio-remote":
		return istioRemote
	case "fairway-remote":
		return ownRemote
	}
	return ""
}

// Controllers of GatewayClasses (GatewayClass.spec.controllerName) that mean this control plane: Istio's, and our own.
const (
	istioController gatewayv1.GatewayController = "istio.io/gateway-controller"
	Own             gatewayv1.GatewayController = "fairway/gateway-controller"
)

// These controllers say, as in Istio, that the proxies of a Gateway are not here: it only states an address of another cluster or network.
// Nothing is made of it.
const (
	istioRemote gatewayv1.GatewayController = "istio.io/unmanaged-gateway"
	ownRemote   gatewayv1.GatewayController = "fairway/unmanaged-gateway"
)

// IsOurs reports whether a controller means this control plane.
func IsOurs(controller gatewayv1.GatewayController) bool {
	return controller == istioController || controller == Own
}

// IsRemote reports whether a controller means that the proxies of a Gateway are not here.
func IsRemote(controller gatewayv1.GatewayController) bool {
	return controller == istioRemote || controller == ownRemote
}

// Controller returns the controller of a Gateway's class; empty: the class is not known.
func (w Owners) Controller(r *table.Reader, o *config.Object) gatewayv1.GatewayController {
	name := string(o.Native.(*gatewayv1.GatewaySpec).GatewayClassName)
	class, ok := table.Get(r, w.in.GatewayClasses, config.Key{Kind: config.GatewayClass, Name: name})
	if ok {
		return class.Native.(*gatewayv1.GatewayClassSpec).ControllerName
	}
	return builtIn(name)
}

// Ours reports whether this control plane carries out a Gateway: the class and the revision are its own.
func (w Owners) Ours(r *table.Reader, o *config.Object) bool {
	if !w.Mine(r, o) {
		return false
	}
	controller := w.Controller(r, o)
	if controller != "" {
		return IsOurs(controller)
	}
	name := string(o.Native.(*gatewayv1.GatewaySpec).GatewayClassName)
	r.Note(o.Problem("spec.gatewayClassName", code.UnknownGatewayClass, mesh.Warning,
		"there is no GatewayClass "+name+": no known controller serves this Gateway", "write "+istioClass+", or create the class"))
	return false
}
