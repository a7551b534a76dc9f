package config

import (
	"fmt"
	"slices"
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Limits of the certificates that the control plane keeps.
const (
	mostCertificates = 100
	mostNames        = 100 // of one certificate
)

// Certificate is a Secret where the control plane keeps a certificate for names (MeshConfig.certificates).
type Certificate struct {
	Secret string
	Names  []string // DNS names, sorted, each once
}

// Equal reports whether two certificates are equal.
func (c Certificate) Equal(o Certificate) bool {
	return c.Secret == o.Secret && slices.Equal(c.Names, o.Names)
}

// CertificatesOf lists the certificates that a mesh configuration asks for, by the names of their Secrets, and what of it cannot be.
func CertificatesOf(spec *meshconfig.MeshConfig) (out []Certificate, bad []Unmet) {
	for i, c := range spec.GetCertificates() { //nolint:staticcheck // deprecated by Istio, still taken
		field := fmt.Sprintf("certificates[%d]", i)
		refuse := func(of, why, instead string) { bad = append(bad, Unmet{Field: field + of, Why: why, Instead: instead}) }
		switch {
		case i >= mostCertificates:
			refuse("", fmt.Sprintf("certificates are kept for the first %d entries", mostCertificates), "ask for fewer")
			return sorted(out), bad
		case c.GetSecretName() == "":
			refuse(".secretName", "the certificate needs a Secret, and none is named", "name one")
			continue
		case len(validation.IsDNS1123Subdomain(c.GetSecretName())) > 0:
			refuse(".secretName", fmt.Sprintf("%q is not a name of a Secret", c.GetSecretName()),
				"write lower case letters, digits, '-' and '.'")
			continue
		case slices.ContainsFunc(out, func(o Certificate) bool { return o.Secret == c.GetSecretName() }):
			refuse(".secretName", fmt.Sprintf("the Secret %q is that of an entry before", c.GetSecretName()), "name another one")
			continue
		case len(c.GetDnsNames()) == 0 || len(c.GetDnsNames()) > mostNames:
			refuse(".dnsNames", fmt.Sprintf("a certificate has 1 to %d names", mostNames), "list them")
			continue
		}
		var names []string
		for j, name := range c.GetDnsNames() {
			if len(validation.IsDNS1123Subdomain(strings.TrimPrefix(name, "*."))) > 0 {
				refuse(fmt.Sprintf(".dnsNames[%d]", j), fmt.Sprintf("%q is not a DNS name: the certificate is not kept", name),
					"write one as web.shop.svc")
				names = nil
				break
			}
			names = append(names, name)
		}
		if slices.Sort(names); len(names) > 0 {
			out = append(out, Certificate{c.GetSecretName(), slices.Compact(names)})
		}
	}
	return sorted(out), bad
}

func sorted(list []Certificate) []Certificate {
	slices.SortFunc(list, func(a, b Certificate) int { return strings.Compare(a.Secret, b.Secret) })
	return list
}
