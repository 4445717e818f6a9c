export async function schemas() { return {}; }
