package secret

import (
	"fmt"
	"slices"

	"fairway/internal/mesh/code"
)

// ParameterKeys returns the keys of a ConfigMap whose values change the objects that a Gateway is deployed as, as in Istio
// (GatewayInfrastructure.parametersRef).
func ParameterKeys() []string {
	return []string{"deployment", "horizontalPodAutoscaler", "podDisruptionBudget", "service", "serviceAccount"}
}

// maxParameter is how many bytes the value of such a key may have.
const maxParameter = 64 << 10

// takeParameters keeps the values of ParameterKeys.
func (s *secret) takeParameters() {
	for _, k := range ParameterKeys() {
		value, is := s.values[k]
		switch {
		case !is:
		case len(value) > maxParameter:
			s.Report.Fail(s.fields[k], code.TooMuch,
				fmt.Sprintf("the value has %d bytes; the parameters of a Gateway may have %d", len(value), maxParameter), "shorten it")
		default:
			if s.out.Parameters == nil {
				s.out.Parameters = map[string]string{}
			}
			s.out.Parameters[k] = string(value)
		}
	}
	for k := range s.values {
		if !slices.Contains(ParameterKeys(), k) {
			s.out.OtherKeys = append(s.out.OtherKeys, k)
		}
	}
	slices.Sort(s.out.OtherKeys)
}
