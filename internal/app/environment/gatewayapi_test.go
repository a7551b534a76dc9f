package environment

import "testing"

// TestGatewayAPI: each variable switches its part off. Nothing is written for kinds that are not read.
func TestGatewayAPI(t *testing.T) {
	for variable, want := range map[string]GatewayAPI{
		"":                         {Deploys: true},
		"PILOT_ENABLE_GATEWAY_API": {Unread: true, Silent: true},
		"PILOT_ENABLE_GATEWAY_API_DEPLOYMENT_CONTROLLER": {},
		"PILOT_ENABLE_GATEWAY_API_STATUS":                {Deploys: true, Silent: true},
	} {
		e := Reader{Lookup: func(name string) (string, bool) { return map[string]string{variable: "false"}[name], name == variable }}
		var got GatewayAPI
		if got.Read(&e); got != want || e.Err() != nil {
			t.Errorf("%s: got %+v, %v; want %+v", variable, got, e.Err(), want)
		}
	}
}
