package secret

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"fairway/internal/identity"
	"fairway/internal/mesh/code"
)

// RegistriesType is the type of a Secret with credentials for registries of images.
const RegistriesType = "kubernetes.io/dockerconfigjson"

const (
	registriesKey  = ".dockerconfigjson"
	maxRegistries  = 64 << 10 // bytes of it: it is sent to proxies' agents
	mostRegistries = 256
)

// takeRegistries reads credentials for registries, if there are any. Only the registries' names are public.
func (s *secret) takeRegistries() {
	typed := s.Tree["type"] == RegistriesType
	if !s.has(registriesKey) {
		if typed {
			s.Report.Fail(s.where(registriesKey, registriesKey), code.Missing, "the Secret has no "+registriesKey,
				"write Docker's config.json under that key")
		}
		return
	}
	at, text := s.fields[registriesKey], s.values[registriesKey]
	if len(text) > maxRegistries {
		s.Report.Fail(at, code.TooMuch, fmt.Sprintf("the value has %d bytes of at most %d", len(text), maxRegistries),
			"leave out the registries that are not asked")
		return
	}
	var config struct {
		Auths map[string]struct{} `json:"auths"`
	}
	if err := json.Unmarshal(text, &config); err != nil || len(config.Auths) > mostRegistries {
		s.Report.Fail(at, code.BadValue, "the value is not what Docker's config.json holds",
			fmt.Sprintf(`write {"auths": {"<registry>": {"auth": "<user:password in base64>"}}}, %d registries at most`, mostRegistries))
		return
	}
	if len(config.Auths) == 0 {
		return
	}
	s.out.Registries = identity.MakePrivate(text)
	s.public["registries"] = anyList(slices.Sorted(maps.Keys(config.Auths)))
}
