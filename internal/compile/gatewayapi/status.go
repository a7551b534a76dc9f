package gatewayapi

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/internal/compile/gatewayapi/deployed"
	"fairway/internal/compile/gatewayapi/leads"
	"fairway/internal/compile/gatewayapi/owners"
	"fairway/internal/compile/gatewayapi/parents"
	"fairway/internal/compile/gatewayapi/verdict"
	"fairway/internal/compile/input"
	"fairway/internal/compile/secret"
	"fairway/internal/compile/status"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// DeclareStatuses declares Statuses and Taken. problems are all problems of each object, and services those of registries. DeclareServed
// must be called before.
func (t *Tables) DeclareStatuses(
	s *table.Store, problems *table.Table[config.Key, table.Rows[status.Problem, struct{}]],
	services *table.Table[mesh.ServiceKey, *mesh.Service],
) {
	t.Taken = table.NewInput(s, "gatewayapi/taken names", config.CompareKey, func(a, b string) bool { return a == b })
	j := judge{
		maker: &t.maker, problems: problems, services: services, secrets: t.secrets, deployments: t.Deployments, taken: t.Taken.Table,
		leading: t.Leading, toPools: t.toPools,
		served: func(r *table.Reader, gateway config.Key) bool {
			return table.Has(r, t.Here, gateway) || table.Has(r, t.elsewhere, gateway)
		},
	}
	sets := j.each(t.in.ListenerSets, "gatewayapi/listenerset statuses", j.ofSet)
	j.declareSets(sets)
	parts := []table.Part[config.Key, *verdict.Status]{
		table.Whole(j.each(t.in.GatewayClasses, "gatewayapi/class statuses", j.class)),
		table.Whole(j.each(t.gateways, "gatewayapi/gateway statuses", j.ofGateway)),
		table.Whole(j.each(t.in.KubernetesGateways, "gatewayapi/remote statuses", j.ofRemote)),
		table.Whole(sets),
		table.Whole(j.each(t.in.BackendTLSPolicies, "gatewayapi/policy statuses", j.ofPolicy)),
		table.Whole(j.each(t.in.InferencePools, "gatewayapi/pool statuses", j.ofPool)),
	}
	for _, routes := range append(t.routes(), t.in.UDPRoutes) {
		parts = append(parts, table.Whole(j.each(routes, routes.Name()+"/statuses", j.ofRoute)))
	}
	t.Statuses = table.Union("gatewayapi/statuses", config.CompareKey, verdict.Same, nil, parts...)
}

// judge says what becomes of objects. Mistakes are its problems, which are noted where they are found.
type judge struct {
	*maker
	problems    *table.Table[config.Key, table.Rows[status.Problem, struct{}]]
	services    *table.Table[mesh.ServiceKey, *mesh.Service]
	secrets     *secret.Tables
	deployments *table.Table[config.Key, *deployed.Deployment]
	taken       *table.Table[config.Key, string]
	leading     *leads.ByHost
	toPools     *leads.ByHost
	sets        *table.Table[config.Key, table.Rows[config.Key, config.Key]] // accepted ones, by their Gateway
	served      func(r *table.Reader, gateway config.Key) bool               // by proxies of any control plane
}

// each derives the statuses of objects; nil: an object has none of ours.
func (j judge) each(
	of *input.Objects, name string, judge func(*table.Reader, *config.Object) *verdict.Status,
) *table.Table[config.Key, *verdict.Status] {
	return table.Derive(of, name, config.CompareKey, verdict.Same,
		func(r *table.Reader, k config.Key, o *config.Object, emit func(config.Key, *verdict.Status)) {
			if s := judge(r, o); s != nil {
				emit(k, s)
			}
		})
}

// first returns the first problem of an object that is of some sort.
func (j judge) first(r *table.Reader, k config.Key, is func(status.Problem) bool) (status.Problem, bool) {
	rows, _ := table.Get(r, j.problems, k)
	for p := range rows.All() {
		if is(p) {
			return p, true
		}
	}
	return status.Problem{}, false
}

// under returns the first problem of an object in a field of it, or below, that is of some sort.
func (j judge) under(r *table.Reader, k config.Key, field string, is func(rest string, p status.Problem) bool) (status.Problem, bool) {
	return j.first(r, k, func(p status.Problem) bool {
		rest, below := strings.CutPrefix(p.Field, field)
		return below && (rest == "" || rest[0] == '.' || rest[0] == '[') && is(rest, p)
	})
}

// class is the status of a GatewayClass.
func (j judge) class(r *table.Reader, o *config.Object) *verdict.Status {
	controller := native[gatewayv1.GatewayClassSpec](o).ControllerName
	if !owners.IsOurs(controller) && !owners.IsRemote(controller) {
		return nil
	}
	accepted := verdict.Condition(gatewayv1.GatewayClassConditionStatusAccepted, true, gatewayv1.GatewayClassReasonAccepted, "")
	if wrong := j.parameters.OfClass(r, o.Key); wrong != "" {
		accepted = verdict.Condition(gatewayv1.GatewayClassConditionStatusAccepted, false, gatewayv1.GatewayClassReasonInvalidParameters,
			wrong)
	}
	out := &verdict.Status{Conditions: []metav1.Condition{accepted}}
	if owners.IsOurs(controller) {
		out.Features = verdict.Features()
	}
	return out
}

// ofRemote is the status of a Gateway whose proxies are not here; nil: they are.
func (j judge) ofRemote(r *table.Reader, o *config.Object) *verdict.Status {
	if !owners.IsRemote(j.Controller(r, o)) || !j.Mine(r, o) {
		return nil
	}
	s := &verdict.Status{Addressed: true, Revised: j.Revised(r, o), Conditions: []metav1.Condition{
		verdict.Condition(gatewayv1.GatewayConditionAccepted, true, gatewayv1.GatewayReasonAccepted, ""),
		verdict.Condition(gatewayv1.GatewayConditionProgrammed, true, gatewayv1.GatewayReasonProgrammed,
			"the Gateway is remote: no proxy here serves it"),
	}}
	for _, a := range native[gatewayv1.GatewaySpec](o).Addresses {
		if a.Value != "" {
			s.Addresses = append(s.Addresses, gatewayv1.GatewayStatusAddress(a))
		}
	}
	return s
}

// ofGateway is the status of a Gateway that is ours.
func (j judge) ofGateway(r *table.Reader, o *config.Object) *verdict.Status {
	s := j.ofListeners(r, listenersOf(o, o.Key), gatewayv1.GatewayReasonInvalid)
	sets, _ := table.Get(r, j.sets, o.Key)
	s.Revised = j.Revised(r, o)
	s.Sets = int32(sets.Len()) //nolint:gosec // rows that are in memory
	if fallsBack(o) {
		s.Conditions = append(s.Conditions, verdict.Condition(gatewayv1.GatewayConditionInsecureFrontendValidationMode, true,
			gatewayv1.GatewayReasonConfigurationChanged, "spec.tls.frontend lets clients in without a valid certificate"))
	}
	j.reach(r, o, s)
	j.backendRefs(r, o, s)
	return s
}

// ofSet is the status of a ListenerSet of a Gateway that is ours.
func (j judge) ofSet(r *table.Reader, o *config.Object) *verdict.Status {
	gateway, ok, wrong := j.parent(r, o)
	switch {
	case !table.Has(r, j.gateways, gateway):
		return nil
	case !ok:
		return &verdict.Status{Revised: j.RevisedAt(r, gateway), Conditions: []metav1.Condition{
			verdict.Condition(gatewayv1.ListenerSetConditionAccepted, false, gatewayv1.ListenerSetReasonNotAllowed, wrong.Message),
			verdict.Condition(gatewayv1.ListenerSetConditionProgrammed, false, gatewayv1.ListenerSetReasonNotAllowed, wrong.Message),
		}}
	}
	s := j.ofListeners(r, listenersOf(o, gateway), gatewayv1.GatewayReasonListenersNotValid)
	s.Revised = j.RevisedAt(r, gateway)
	return s
}

// ofListeners is the status of an object with these listeners. invalid is why it is not programmed if none of them is valid.
func (j judge) ofListeners(r *table.Reader, all []*listener, invalid gatewayv1.GatewayConditionReason) *verdict.Status {
	s := &verdict.Status{}
	for _, l := range all {
		s.Listeners = append(s.Listeners, j.ofListener(r, l))
	}
	s.Conditions = verdict.OfListeners(s.Listeners, invalid)
	return s
}

// controllerAt returns the controller of a Gateway that is ours; empty: it is not.
func (j judge) controllerAt(r *table.Reader, gateway config.Key) gatewayv1.GatewayController {
	o, ok := table.Get(r, j.gateways, gateway)
	if !ok {
		return ""
	}
	return j.Controller(r, o)
}

// ofListener is the status of a listener.
func (j judge) ofListener(r *table.Reader, l *listener) gatewayv1.ListenerStatus {
	kinds, others := parents.Supported(&l.spec)
	out := gatewayv1.ListenerStatus{Name: l.spec.Name, SupportedKinds: []gatewayv1.RouteGroupKind{}}
	for _, k := range kinds {
		group := gatewayv1.Group(gatewayv1.GroupName)
		out.SupportedKinds = append(out.SupportedKinds, gatewayv1.RouteGroupKind{Group: &group, Kind: gatewayv1.Kind(k.Word())})
	}
	attached, _ := table.Get(r, j.attached, l.key())
	out.AttachedRoutes = int32(attached.Len()) //nolint:gosec // rows that are in memory
	clients := j.lackingAuthority(r, l)
	accepted, conflicted := j.accepted(r, l, clients)
	refs := j.resolved(r, l, clients, others)
	programmed := verdict.Condition(gatewayv1.ListenerConditionProgrammed, true, gatewayv1.ListenerReasonProgrammed, "")
	no := func(reason gatewayv1.ListenerConditionReason, message string) {
		programmed = verdict.Condition(gatewayv1.ListenerConditionProgrammed, false, reason, message)
	}
	switch {
	case conflicted.Status == metav1.ConditionTrue:
		no(gatewayv1.ListenerConditionReason(conflicted.Reason), conflicted.Message)
	case accepted.Status == metav1.ConditionFalse:
		no(gatewayv1.ListenerReasonInvalid, accepted.Message)
	case !table.Has(r, j.made, l.madeKey()) || clients.message != "" ||
		refs.Reason == string(gatewayv1.ListenerReasonInvalidCertificateRef):
		no(gatewayv1.ListenerReasonInvalid, refs.Message)
	case !j.served(r, l.gateway):
		no(gatewayv1.ListenerReasonPending, "no connected proxy has the label "+GatewayName+"="+shortName(l.gateway.Name))
	}
	out.Conditions = []metav1.Condition{accepted, conflicted, refs, programmed}
	return out
}

// accepted returns whether a listener is accepted, and whether another one excludes it.
func (j judge) accepted(r *table.Reader, l *listener, clients unverified) (accepted, conflicted metav1.Condition) {
	conflicted = verdict.Condition(gatewayv1.ListenerConditionConflicted, false, gatewayv1.ListenerReasonNoConflicts, "")
	no := func(reason gatewayv1.ListenerConditionReason, message string) metav1.Condition {
		return verdict.Condition(gatewayv1.ListenerConditionAccepted, false, reason, message)
	}
	if p, is := j.under(r, l.owner.Key, l.field(), conflicting); is {
		reason := gatewayv1.ListenerReasonHostnameConflict
		if p.Code == code.PortConflict {
			reason = gatewayv1.ListenerReasonProtocolConflict
		}
		return no(reason, p.Message), verdict.Condition(gatewayv1.ListenerConditionConflicted, true, reason, p.Message)
	}
	if clients.all {
		return no(gatewayv1.ListenerReasonNoValidCACertificate, clients.message), conflicted
	}
	if p, is := j.under(r, l.owner.Key, l.field(), unserved); is {
		reason := gatewayv1.ListenerReasonUnsupportedValue
		switch p.Field {
		case l.field() + ".protocol":
			reason = gatewayv1.ListenerReasonUnsupportedProtocol
		case l.field() + ".port":
			reason = gatewayv1.ListenerReasonPortUnavailable
		}
		return no(reason, p.Message), conflicted
	}
	return verdict.Condition(gatewayv1.ListenerConditionAccepted, true, gatewayv1.ListenerReasonAccepted, ""), conflicted
}

// resolved returns whether what a listener refers to is there. others: it lists kinds of routes that it cannot take.
func (j judge) resolved(r *table.Reader, l *listener, clients unverified, others bool) metav1.Condition {
	no := func(reason gatewayv1.ListenerConditionReason, message string) metav1.Condition {
		return verdict.Condition(gatewayv1.ListenerConditionResolvedRefs, false, reason, message)
	}
	if p, is := j.under(r, l.owner.Key, l.field()+certificates, anything); is {
		if p.Code == code.NotGranted {
			return no(gatewayv1.ListenerReasonRefNotPermitted, p.Message)
		}
		return no(gatewayv1.ListenerReasonInvalidCertificateRef, p.Message)
	}
	if lacks := j.lackingCertificate(r, l); lacks != "" {
		return no(gatewayv1.ListenerReasonInvalidCertificateRef, lacks)
	}
	switch {
	case clients.message != "":
		return no(clients.reason, clients.message)
	case others:
		return no(gatewayv1.ListenerReasonInvalidRouteKinds,
			"allowedRoutes.kinds has kinds that a listener of protocol "+string(l.spec.Protocol)+" does not take")
	}
	return verdict.Condition(gatewayv1.ListenerConditionResolvedRefs, true, gatewayv1.ListenerReasonResolvedRefs, "")
}

// certificates is the field of a listener that names its certificates.
const certificates = ".tls.certificateRefs"

func anything(string, status.Problem) bool { return true }

// conflicting reports whether a listener's problem is that another one has what it wants.
func conflicting(_ string, p status.Problem) bool {
	return p.Code == code.PortConflict || p.Code == code.Conflict || p.Code == code.ServerNameConflict
}

// unserved reports whether a listener is not served because of a problem of its own, not of what it refers to.
func unserved(rest string, p status.Problem) bool {
	return p.Severity == mesh.Error && p.Code != code.MissingSecret && !strings.HasPrefix(rest, certificates)
}

// ofRoute is the status of a route; nil: none of its parents is ours.
func (j judge) ofRoute(r *table.Reader, o *config.Object) *verdict.Status {
	out := &verdict.Status{}
	refs := verdict.Condition(gatewayv1.RouteConditionResolvedRefs, true, gatewayv1.RouteReasonResolvedRefs, "")
	if p, is := j.first(r, o.Key, verdict.Unresolved); is {
		refs = verdict.Condition(gatewayv1.RouteConditionResolvedRefs, false, verdict.WhyUnresolved(p), p.Message)
	}
	rest := []metav1.Condition{refs}
	if p, is := j.first(r, o.Key, verdict.Unsupported); is {
		rest = append(rest,
			verdict.Condition(gatewayv1.RouteConditionPartiallyInvalid, true, gatewayv1.RouteReasonUnsupportedValue, p.Message))
	}
	for i, ref := range o.Parents() {
		at := index("spec.parentRefs", i)
		controller, gateway := j.controllerOfParent(r, o, at, ref)
		if controller == "" {
			continue
		}
		out.Revised = out.Revised || j.RevisedAt(r, gateway)
		accepted := verdict.Condition(gatewayv1.RouteConditionAccepted, true, gatewayv1.RouteReasonAccepted, "")
		if p, is := j.under(r, o.Key, at, anything); is {
			accepted = verdict.Condition(gatewayv1.RouteConditionAccepted, false, verdict.WhyRefused(p), p.Message)
		}
		out.Parents = append(out.Parents, gatewayv1.RouteParentStatus{
			ParentRef: ref, ControllerName: controller, Conditions: append([]metav1.Condition{accepted}, rest...),
		})
	}
	if out.Parents == nil {
		return nil
	}
	return out
}

// controllerOfParent returns the controller of what a reference of a route binds it to, and the Gateway, if it is one; empty: it is not
// ours.
func (j judge) controllerOfParent(r *table.Reader, o *config.Object, at string, ref gatewayv1.ParentReference) (
	controller gatewayv1.GatewayController, gateway config.Key,
) {
	if _, is := parents.ServiceOf(o, ref); is {
		return owners.Own, gateway
	}
	owner, ours, _ := j.parentOf(r, o, at, ref)
	if !ours {
		return "", gateway
	}
	if owner.Kind == config.ListenerSet {
		set, _ := table.Get(r, j.in.ListenerSets, owner)
		owner, _, _ = j.parent(r, set)
	}
	return j.controllerAt(r, owner), owner
}
