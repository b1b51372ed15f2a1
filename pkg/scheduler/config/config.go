package config

// Profile is an ordered choice of plugins. Each runs at every extension point it implements.
type Profile struct {
	Name    string
	Plugins []Plugin
}

// Plugin is one enabled plugin.
type Plugin struct {
	Name string
	// Weight is that of a score plugin in the Additive mode, from -10 to 10; 0 leaves it out unless a Placement asks for it.
	Weight int32
}
