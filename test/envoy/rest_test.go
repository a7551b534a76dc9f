package envoy

func connections() []feature { return nil }
func balancing() []feature   { return nil }
func securing() []feature    { return nil }
func scoping() []feature     { return nil }
func entering() []feature    { return nil }
func endpoints() []feature   { return nil }
