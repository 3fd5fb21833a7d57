package vault

// ForgetSecrets is Forget for secrets alone: the keys of tenants stay open.
func (v *Vault) ForgetSecrets() { v.memory.Load().secrets.Clear() }
