// The width of the page, and up to five elements that make it wider than the window: with
// their box, or with text in it that cannot be broken.
(() => {
	const root = document.scrollingElement, width = root.clientWidth;
	if (root.scrollWidth <= width) return [];
	const clipped = e => {
		for (let p = e.parentElement; p && p !== document.body; p = p.parentElement)
			if (getComputedStyle(p).overflowX !== 'visible') return true;
		return false;
	};
	const range = document.createRange();
	const textEnd = n => {
		range.selectNodeContents(n);
		return range.getBoundingClientRect().right;
	};
	const end = e => {
		const texts = getComputedStyle(e).overflowX !== 'visible' ? [] : [...e.childNodes].filter(n => n.nodeType === Node.TEXT_NODE);
		return Math.round(Math.max(e.getBoundingClientRect().right, ...texts.map(textEnd)) + scrollX);
	};
	const wide = [...document.body.querySelectorAll('*')]
		.filter(e => end(e) > width + 1 && !clipped(e))
		.slice(0, 5)
		.map(e => `up to ${end(e)} px: ${describe(e)}`);
	return [`${root.scrollWidth} px in a window of ${width} px`, ...wide];
})()
