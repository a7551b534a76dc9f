package verdict

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/internal/printable"
)

// Status is what an object's status says, in the API's own words. Its conditions have neither times nor generations.
type Status struct {
	Conditions []metav1.Condition               // of a GatewayClass, Gateway or ListenerSet
	Listeners  []gatewayv1.ListenerStatus       // of a Gateway or ListenerSet
	Parents    []gatewayv1.RouteParentStatus    // of a route, with the controller of each
	Ancestors  []gatewayv1.PolicyAncestorStatus // of a policy, with the controller of each
	Addressed  bool                             // the addresses of a Gateway are known
	Addresses  []gatewayv1.GatewayStatusAddress // of a Gateway
	Sets       int32                            // the number of ListenerSets that a Gateway has accepted
	Features   []gatewayv1.SupportedFeature     // of a GatewayClass
	Revised    bool                             // the object is, or is bound to, a Gateway that is for one revision only
}

// Same reports whether two statuses say the same.
func Same(a, b *Status) bool { return equality.Semantic.DeepEqual(a, b) }

// Row implements table.Rower.
func (s *Status) Row() []string {
	var parts []string
	add := func(at string, all []metav1.Condition) {
		var words []string
		for _, c := range all {
			word := c.Type + "=" + string(c.Status)
			if c.Reason != c.Type {
				word += " " + c.Reason
			}
			words = append(words, word)
		}
		if len(words) > 0 {
			parts = append(parts, at+strings.Join(words, ", "))
		}
	}
	add("", s.Conditions)
	if s.Addressed {
		var all []string
		for _, a := range s.Addresses {
			all = append(all, a.Value)
		}
		parts = append(parts, "addresses "+strings.Join(all, ", "))
	}
	if s.Sets > 0 {
		parts = append(parts, fmt.Sprintf("%d ListenerSets", s.Sets))
	}
	for _, l := range s.Listeners {
		var kinds []string
		for _, k := range l.SupportedKinds {
			kinds = append(kinds, string(k.Kind))
		}
		add(fmt.Sprintf("%s (%d of %s): ", l.Name, l.AttachedRoutes, strings.Join(kinds, ", ")), l.Conditions)
	}
	for _, p := range s.Parents {
		at := kindOf(p.ParentRef) + " " + string(p.ParentRef.Name)
		if p.ParentRef.SectionName != nil {
			at += " " + string(*p.ParentRef.SectionName)
		}
		add(at+": ", p.Conditions)
	}
	for _, a := range s.Ancestors {
		add("Gateway "+string(*a.AncestorRef.Namespace)+"/"+string(a.AncestorRef.Name)+": ", a.Conditions)
	}
	return []string{strings.Join(parts, "; ")}
}

const mostMessage = 1 << 10 // bytes

// Condition returns one of a status. The types of the words are those of each kind.
func Condition[T, R ~string](typ T, is bool, reason R, message string) metav1.Condition {
	out := metav1.Condition{Type: string(typ), Status: metav1.ConditionFalse, Reason: string(reason)}
	if is {
		out.Status = metav1.ConditionTrue
	}
	out.Message = printable.Text(message, mostMessage)
	return out
}

// OfListeners are the conditions of a Gateway or ListenerSet with these listeners: the words are the same.
func OfListeners(all []gatewayv1.ListenerStatus, invalid gatewayv1.GatewayConditionReason) []metav1.Condition {
	valid, programmed := 0, 0
	var wrong, waits []string
	for _, l := range all {
		switch is := meta.FindStatusCondition(l.Conditions, string(gatewayv1.ListenerConditionProgrammed)); {
		case is.Status == metav1.ConditionTrue:
			valid, programmed = valid+1, programmed+1
		case is.Reason == string(gatewayv1.ListenerReasonPending):
			valid++
			waits = append(waits, is.Message)
		default:
			wrong = append(wrong, string(l.Name))
		}
	}
	accepted := Condition(gatewayv1.GatewayConditionAccepted, true, gatewayv1.GatewayReasonAccepted, "")
	if len(wrong) > 0 {
		accepted = Condition(gatewayv1.GatewayConditionAccepted, valid > 0, gatewayv1.GatewayReasonListenersNotValid,
			"listeners that are not valid: "+strings.Join(wrong, ", "))
	}
	is := func(programmed bool, reason gatewayv1.GatewayConditionReason, message string) []metav1.Condition {
		return []metav1.Condition{accepted, Condition(gatewayv1.GatewayConditionProgrammed, programmed, reason, message)}
	}
	switch {
	case programmed > 0:
		return is(true, gatewayv1.GatewayReasonProgrammed, "")
	case len(waits) > 0:
		return is(false, gatewayv1.GatewayReasonPending, waits[0])
	}
	return is(false, invalid, accepted.Message)
}

// Set puts a condition in the place of the one of its type.
func (s *Status) Set(c metav1.Condition) {
	at := slices.IndexFunc(s.Conditions, func(o metav1.Condition) bool { return o.Type == c.Type })
	if at < 0 {
		s.Conditions = append(s.Conditions, c)
		return
	}
	s.Conditions[at] = c
}

// kindOf returns the kind of a route's parent.
func kindOf(ref gatewayv1.ParentReference) string {
	if ref.Kind == nil {
		return "Gateway"
	}
	return string(*ref.Kind)
}
