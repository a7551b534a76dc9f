package origin

import (
	"fmt"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
)

// mostCallers is how many names of callers an entry of config sources may have.
const mostCallers = 64

// plainName reports whether a text consists of lower-case letters, digits, dashes and dots, is not too long, and begins and ends with a
// letter or digit.
func plainName(s string, most int) bool {
	odd := func(r rune) bool { return r < 'a' && (r < '0' || r > '9') || r > 'z' }
	return s != "" && len(s) <= most && strings.Trim(s, "-.") == s &&
		!strings.ContainsFunc(s, func(r rune) bool { return odd(r) && r != '-' && r != '.' })
}

// sinkName reports whether a text is a valid name for a source that connects.
func sinkName(s string) bool { return plainName(s, 63) }

// checkCallers checks the TLS settings of a source that connects to the control plane: they must say which client certificates it may use.
func checkCallers(t *networking.ClientTLSSettings) *Unmet {
	const at = ".tlsSettings"
	if t == nil {
		return &Unmet{at, "it does not say who may push", "write mode ISTIO_MUTUAL and subjectAltNames; " +
			"with mode DISABLE this machine alone may, on --grpcAddr"}
	}
	const leave = "leave it out"
	for _, f := range []struct {
		field string
		set   bool
		why   string
	}{
		{"credentialName", t.GetCredentialName() != "", "certificates of authorities are read from files"},
		{"caCrl", t.GetCaCrl() != "", "revocation lists are not checked here, so no client may push"},
		{"clientCertificate", t.GetClientCertificate() != "", "the source connects, and shows its own certificate"},
		{"privateKey", t.GetPrivateKey() != "", "the source connects, and has a key of its own"},
		{"sni", t.GetSni() != "", "the source connects, so no server name is sent"},
		{"insecureSkipVerify", t.GetInsecureSkipVerify().GetValue(), "any client could push"},
	} {
		if f.set {
			return &Unmet{at + "." + f.field, f.why, leave}
		}
	}
	names, files := t.GetSubjectAltNames(), t.GetCaCertificates()
	switch mode := t.GetMode(); {
	case mode == networking.ClientTLSSettings_DISABLE && (len(names) > 0 || files != ""):
		return &Unmet{at + ".mode", "without TLS clients cannot prove a name", "write ISTIO_MUTUAL, or MUTUAL and caCertificates"}
	case mode == networking.ClientTLSSettings_DISABLE:
		return nil
	case mode == networking.ClientTLSSettings_SIMPLE:
		return &Unmet{at + ".mode", "in mode SIMPLE the source shows no certificate", "write ISTIO_MUTUAL, or MUTUAL and caCertificates"}
	case mode == networking.ClientTLSSettings_MUTUAL && files == "":
		return &Unmet{at + ".caCertificates", "mode MUTUAL believes certificates of these authorities, and there are none",
			"name their file, or write mode ISTIO_MUTUAL: certificates of the mesh"}
	case mode == networking.ClientTLSSettings_ISTIO_MUTUAL && files != "":
		return &Unmet{at + ".caCertificates", "mode ISTIO_MUTUAL believes certificates of the mesh", "leave it out, or write mode MUTUAL"}
	case len(names) == 0:
		return &Unmet{at + ".subjectAltNames", "it does not say who may push", "name the identities of clients that may push"}
	case len(names) > mostCallers:
		return &Unmet{at + ".subjectAltNames", fmt.Sprintf("%d are too many", len(names)), fmt.Sprintf("name at most %d", mostCallers)}
	}
	for i, name := range names {
		if wrong := checkCaller(name, t.GetMode()); wrong != nil {
			wrong.Field = fmt.Sprintf("%s.subjectAltNames[%d]", at, i)
			return wrong
		}
	}
	return nil
}

// checkCaller returns why a client certificate cannot have a name in a mode.
func checkCaller(name string, mode networking.ClientTLSSettings_TLSmode) *Unmet {
	id, spiffe := strings.CutPrefix(name, "spiffe://")
	parts := strings.Split(id, "/")
	switch {
	case len(name) > 2048:
		return &Unmet{"", fmt.Sprintf("a name of %d bytes is not a certificate's", len(name)), "write at most 2048"}
	case mode == networking.ClientTLSSettings_ISTIO_MUTUAL:
		if !spiffe || len(parts) != 5 || parts[1] != "ns" || parts[3] != "sa" || slices.Contains(parts, "") {
			return &Unmet{"", fmt.Sprintf("%q is not an identity of a mesh", name),
				"write spiffe://<trust domain>/ns/<namespace>/sa/<service account>, or mode MUTUAL"}
		}
	case spiffe && (len(parts) < 2 || slices.Contains(parts, "")):
		return &Unmet{"", fmt.Sprintf("%q is not a SPIFFE id", name), "write spiffe://<trust domain>/<path>"}
	case !spiffe && !plainName(name, 253):
		return &Unmet{"", fmt.Sprintf("%q is neither a SPIFFE id nor a DNS name", name),
			"write spiffe://<trust domain>/<path>, or a name as galley.example: in lower case, without a wildcard"}
	}
	return nil
}

// sameCallers returns an error if a source that connects could not be distinguished from one before it.
func sameCallers(before []ConfigSource, one ConfigSource) *Unmet {
	for _, b := range before {
		switch {
		case b.Scheme != PushScheme || b.TLS.GetMode() != one.TLS.GetMode() || b.TLS.GetCaCertificates() != one.TLS.GetCaCertificates():
		case one.TLS.GetMode() == networking.ClientTLSSettings_DISABLE:
			return &Unmet{".tlsSettings.mode", fmt.Sprintf("%q has mode DISABLE too, and clients of the two could not be "+
				"distinguished", b.Name()),
				"let all but one prove who they are, by mode ISTIO_MUTUAL or MUTUAL"}
		default:
			for i, name := range one.TLS.GetSubjectAltNames() {
				if slices.Contains(b.TLS.GetSubjectAltNames(), name) {
					return &Unmet{fmt.Sprintf(".tlsSettings.subjectAltNames[%d]", i),
						fmt.Sprintf("%q is one of %q too, and clients of the two could not be "+
							"distinguished", name, b.Name()), "leave it out of one of them"}
				}
			}
		}
	}
	return nil
}
