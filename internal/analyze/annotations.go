package analyze

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"istio.io/api/annotation"

	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/printable"
	"fairway/internal/spelling"
)

// annotations notes annotations with Istio's names that have no effect on their object.
func (w *world) annotations() {
	known := map[string]*annotation.Instance{}
	for _, a := range annotation.AllResourceAnnotations() {
		known[a.Name] = a
	}
	names := slices.Sorted(maps.Keys(known))
	look := func(ref mesh.ObjectRef, kind, at, elsewhere string, of map[string]string) {
		for _, name := range slices.Sorted(maps.Keys(of)) {
			if p, wrong := annotated(known, names, name, kind, elsewhere); wrong {
				p.Object, p.Field = ref, at+"metadata.annotations["+printable.Text(name, printable.Short)+"]"
				w.note(p)
			}
		}
	}
	for _, p := range w.pods {
		look(p.ref, "Pod", p.at, "", p.Annotations)
	}
	for _, o := range w.owners {
		look(o.ref, o.ref.Kind, "", "write it under spec.template.metadata.annotations", o.annotations)
	}
	for _, s := range w.services {
		look(serviceRef(s), "Service", "", "", s.Annotations)
	}
	for name, n := range w.namespaces {
		look(mesh.ObjectRef{Kind: "Namespace", Name: name}, "Namespace", "", "", n.Annotations)
	}
	for _, o := range w.objects {
		look(o.Ref, string(o.Kind), "", "", o.Annotations)
	}
}

// annotated returns what is wrong with an annotation on an object of a kind; false if nothing is, or if it is not Istio's. elsewhere is the
// fix for an annotation of pods that is on the object that makes the pods.
func annotated(known map[string]*annotation.Instance, names []string, name, kind, elsewhere string) (mesh.Problem, bool) {
	a := known[name]
	switch {
	case a == nil && !ofIstio(name):
		return mesh.Problem{}, false
	case a == nil:
		fix := "leave it out"
		if near := nearest(name, names); near != "" {
			fix = "did you mean " + near + "?"
		}
		return mesh.Problem{
			Code: code.UnknownAnnotation, Severity: mesh.Warning, Fix: fix,
			Message: "there is no such annotation of Istio's: it does nothing",
		}, true
	case !slices.ContainsFunc(a.Resources, func(r annotation.ResourceTypes) bool { return r == annotation.Any || r.String() == kind }):
		var kinds []string
		for _, r := range a.Resources {
			kinds = append(kinds, r.String())
		}
		fix := "write it on a " + strings.Join(kinds, ", or a ")
		if elsewhere != "" && slices.Contains(a.Resources, annotation.Pod) {
			fix = elsewhere
		}
		return mesh.Problem{
			Code: code.MisplacedAnnotation, Severity: mesh.Warning, Fix: fix,
			Message: fmt.Sprintf("it is for %s, and does nothing on a %s", strings.Join(kinds, ", "), kind),
		}, true
	case !carriedOut(a):
		return mesh.Problem{
			Code: code.NotYet, Severity: mesh.Info, Message: "what the annotation asks for is not done yet: it does nothing",
		}, true
	case a.Deprecated:
		return mesh.Problem{
			Code: code.Deprecated, Severity: mesh.Info, Message: "Istio's API calls the annotation deprecated; it is in force",
			Fix: "write what Istio's reference of annotations names in its place",
		}, true
	}
	return mesh.Problem{}, false
}

// ofIstio reports whether Istio reserves a name. Names of its installer are not checked here.
func ofIstio(name string) bool {
	domain, _, ok := strings.Cut(name, "/")
	return ok && (domain == "istio.io" || strings.HasSuffix(domain, ".istio.io")) && !strings.HasSuffix(domain, "operator.istio.io")
}

// carriedOut reports whether this mesh implements an annotation.
func carriedOut(a *annotation.Instance) bool {
	for _, not := range []annotation.Instance{
		annotation.AmbientBypassInboundCapture, annotation.AmbientDnsCapture, annotation.AmbientRedirection,
		annotation.AmbientWaypointInboundBinding, annotation.GalleyAnalyzeSuppress, annotation.GatewayControllerVersion,
		annotation.GatewayNameOverride, annotation.GatewayServiceAccount, annotation.IoIstioUseWaypointCanaryWeight,
		annotation.SidecarExtraStatTags, annotation.SidecarStatsCompression, annotation.SidecarStatsEvictionInterval,
		annotation.SidecarStatsFlushInterval, annotation.SidecarStatsHistogramBins, annotation.SidecarStatsHistogramBuckets,
		annotation.SidecarStatusReadinessApplicationPorts, annotation.TopologyControlPlaneClusters,
	} {
		if a.Name == not.Name {
			return false
		}
	}
	return true
}

// nearest returns the known name that is most like this one; empty if none is like it.
func nearest(name string, names []string) (best string) {
	most := max(2, len(name)/6)
	if len(name) > 2*spelling.Longest {
		return ""
	}
	for _, n := range names {
		if d := spelling.Distance(name, n, most); d <= most {
			best, most = n, d-1
		}
	}
	return best
}
