package secret

import (
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"fairway/internal/mesh/code"
)

// HoldersAnnotation of a Secret names the service accounts of its namespace that may have it: names joined by commas, or "*" for all of
// them, and for proxies of the control plane's own machine that prove no identity. A Secret without it goes only to accounts that
// MeshConfig names.
const HoldersAnnotation = "fairway/service-accounts"

// Holders are the accounts that may have a Secret, in a canonical form: "" if the Secret names none, "*", or sorted names joined by commas.
type Holders string

// AnyHolder is every service account of the Secret's namespace.
const AnyHolder Holders = "*"

// Has reports whether the account is one of the holders.
func (h Holders) Has(account string) bool {
	return h == AnyHolder || account != "" && slices.Contains(strings.Split(string(h), ","), account)
}

// maxHolders is how many accounts one Secret may name.
const maxHolders = 64

// readHolders reads the annotation. An annotation that cannot be read fails the Secret, so that no unintended account gets it.
func (s *secret) readHolders() {
	text, ok := s.Annotations[HoldersAnnotation]
	if !ok {
		return
	}
	var names []string
	for name := range strings.SplitSeq(text, ",") {
		name = strings.TrimSpace(name)
		if name == string(AnyHolder) {
			s.out.Holders = AnyHolder
			return
		}
		if !isAccount(name) {
			s.Report.Fail("metadata.annotations", code.BadHolders,
				HoldersAnnotation+" names "+strconv.Quote(name)+", which is not a service account",
				"write names of service accounts of the namespace with commas between, or *")
			return
		}
		names = append(names, name)
	}
	if len(names) > maxHolders {
		s.Report.Fail("metadata.annotations", code.BadHolders, HoldersAnnotation+" names more than 64 service accounts",
			"write * for all of the namespace")
		return
	}
	slices.Sort(names)
	s.out.Holders = Holders(strings.Join(slices.Compact(names), ","))
}

// isAccount reports whether a name can be a service account's, by the rules of an identity (spiffe://…/sa/<name>).
func isAccount(name string) bool {
	return name != "" && len(name) <= 253 && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '.'
	})
}

// GatewaysAnnotation of a Secret names the namespaces with Gateways that may use it for gateways of the Secret's namespace: names joined by
// commas, or "*" for all. Gateways of the Secret's own and of the root namespace always may.
const GatewaysAnnotation = "fairway/gateway-namespaces"

// Gateways are the namespaces of a Secret's GatewaysAnnotation: "" without one, "*", or sorted names with commas between.
type Gateways string

// Has reports whether Gateways of a namespace may use the Secret.
func (g Gateways) Has(namespace string) bool {
	return g == "*" || namespace != "" && slices.Contains(strings.Split(string(g), ","), namespace)
}

// readGateways reads the annotation. If a name is wrong the Secret fails, so that no unintended Gateway uses it.
func (s *secret) readGateways() {
	text, ok := s.Annotations[GatewaysAnnotation]
	if !ok {
		return
	}
	var names []string
	for name := range strings.SplitSeq(text, ",") {
		name = strings.TrimSpace(name)
		if name == "*" {
			s.out.Gateways = "*"
			return
		}
		if len(validation.IsDNS1123Label(name)) > 0 || len(names) == maxHolders {
			s.Report.Fail("metadata.annotations", code.BadHolders,
				GatewaysAnnotation+" names "+strconv.Quote(name)+", which is not a namespace, or more than 64",
				"write at most 64 names of namespaces with commas between, or *")
			return
		}
		names = append(names, name)
	}
	slices.Sort(names)
	s.out.Gateways = Gateways(strings.Join(slices.Compact(names), ","))
}
