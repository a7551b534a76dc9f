package registries

// kinds are those of registries, by the field that an entry gives.
type kinds struct {
}

// sourceNames are what sources of a kind are called, by its field.
var sourceNames = map[string]string{}
